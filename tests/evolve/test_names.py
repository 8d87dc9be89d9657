"""A name belongs to a key: a member cannot speak as another, nor answer in another's place; old versions learn why."""

import asyncio

import pytest
from node_lab import AUTHORITY, IDENTITY, InProcess, progress, visit, wait

from neuro_cli.evolve.network.channel import Channel, RefusedError, StrangerError, dial
from neuro_cli.evolve.network.messages import is_name
from neuro_cli.fabric.base import Traffic
from neuro_cli.tls.evolve_peer import identifier_in

IMPOSTOR = "it speaks under the name of another"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two peers of one cluster for all tests of this file; the second ends in the last but one."""
    folder = tmp_path_factory.mktemp("two")
    first = InProcess(folder / "a", "raft", grace=60.0)
    second = InProcess(folder / "b", "raft", join=first.address)
    wait(lambda: len(first.node.state.election.members) == 2)
    progress([first, second])
    yield first, second
    for peer in (first, second):
        peer.end()


def hello_of(purpose, peer, node):
    more = {} if purpose == "link" else {"identity": IDENTITY}
    if purpose == "fetch":
        more |= {"next": 0, "head": node.peer_ledger.limits.origin}
    return {"for": purpose, "peer": peer, "cluster": node.state.cluster, **more}


def test_a_member_that_speaks_under_anothers_name_is_refused(two):
    first, second = two
    other = second.node
    for purpose in ("link", "enter", "leave", "fetch"):
        with pytest.raises(RefusedError, match=IMPOSTOR):
            asyncio.run(visit(first.address, hello_of(purpose, other.me, first.node), ("ok", "left", "members", "cluster")))
        assert other.me in first.node.state.election.members
        assert other.me in first.node.connections.connected
    # under its own name it is heard
    mine = AUTHORITY.fresh()
    hello = hello_of("fetch", f"{mine.identifier}@127.0.0.1:1", first.node)
    _, answer = asyncio.run(visit(first.address, hello, ("cluster",), mine))
    assert answer["cluster"] == first.node.state.cluster


def test_an_earlier_peer_is_told_what_this_cluster_speaks(two):
    first, _ = two
    old = {"k": "hello", "for": "fetch", "format": "neuro evolve 1", "peer": "0123456789abcdef@127.0.0.1:1", "next": 0}
    with pytest.raises(RefusedError, match="this cluster speaks 'neuro evolve 3', the newcomer 'neuro evolve 1'"):
        asyncio.run(dial(first.address, AUTHORITY.fresh().client, Traffic(), old, ("cluster",), 10.0))


def test_a_listener_that_answers_in_anothers_place_is_refused(two):
    first, second = two
    name, address = second.node.me, second.address
    second.end()
    met = []

    async def impostor():
        """Another member at the same address: it shows its own key, it has no other."""
        mine = AUTHORITY.fresh()

        async def answer(reader, writer):
            try:
                channel = Channel(reader, writer, Traffic())
                await channel.secure(mine.server)
                met.append(await channel.receive())
                channel.send({"k": "ok"})
                await asyncio.sleep(1.0)
            except (ConnectionError, OSError):
                met.append(None)
            finally:
                writer.close()

        host, _, port = address.partition(":")
        async with await asyncio.start_server(answer, host, int(port)):
            with pytest.raises(StrangerError, match="another peer than"):
                await visit(name, hello_of("link", f"{'0' * 32}@127.0.0.1:1", first.node), ("ok",))
            # who asks for an address only learns the name that is really there
            channel, _ = await visit(address, hello_of("fetch", f"{'0' * 32}@127.0.0.1:1", first.node), ("ok",))
            found = channel.peer
            channel.close()
            for _ in range(100):
                if len(met) > 3:
                    break
                await asyncio.sleep(0.05)
        return found, mine.identifier

    found, identifier = asyncio.run(impostor())
    assert found == f"{identifier}@{address}"
    assert len(met) > 3  # the first peer has dialled it again and again
    assert [hello for hello in met if hello is not None and hello["for"] == "link"] == []  # and told it nothing
    assert name not in first.node.connections.connected


def test_every_entrance_is_under_a_new_key(two):
    first, _ = two
    before = first.node.me
    first.call(first.node._withdraw)
    assert first.node.me != before
    assert is_name(first.node.me)
    assert first.node.me.partition("@")[0] == first.node.state.credentials.identifier
    with pytest.raises(ConnectionError, match="cannot be read"):
        identifier_in(b"no certificate")
