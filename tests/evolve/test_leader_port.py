"""The published takeover among real nodes: one leader port, opened by whoever finishes first and finds nobody there."""

import asyncio
import socket

import pytest
from node_lab import AUTHORITY, InProcess, free_port, progress, visit, wait

from neuro_cli.evolve.network.channel import RefusedError
from neuro_cli.tls.evolve_peer import Authority


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    port, peers, folder = free_port(), list[InProcess](), tmp_path_factory.mktemp("takeover")
    for number in range(3):
        peers.append(InProcess(folder / str(number), f"takeover {port}", peers[0].address if peers else None, grace=2.0))
    yield port, peers
    for peer in peers:
        if peer.node.running:
            peer.end(leave=True)


def test_the_port_answers_members_of_its_cluster_only_and_by_the_leaders_own_name(cluster):
    port, peers = cluster
    leader = peers[0]

    def ask(**changes):
        hello = {"for": "leader", "peer": f"{stranger.identifier}@127.0.0.1:1", "cluster": leader.node.state.cluster} | changes
        return asyncio.run(answer_of(f"127.0.0.1:{port}", hello, stranger))

    stranger = AUTHORITY.fresh()
    identifier, answer = ask()
    assert answer["peer"] == leader.node.me
    assert answer["m"]["type"] == "beat"
    assert identifier == leader.node.me.partition("@")[0]
    with pytest.raises(RefusedError, match="it belongs to another cluster"):
        ask(cluster="another")
    with pytest.raises(RefusedError, match="under the name of another"):
        ask(peer=leader.node.me)
    stranger = Authority("another secret, also long").fresh()
    with pytest.raises(RefusedError, match="it has another secret"):
        ask()
    stranger = AUTHORITY.fresh()
    hello = {"for": "leader", "peer": f"{stranger.identifier}@127.0.0.1:1", "cluster": leader.node.state.cluster}
    _, answer = asyncio.run(answer_of(peers[1].address, hello, stranger))  # a follower's own address
    assert answer["leader"] is None


async def answer_of(address: str, hello, credentials):
    """Identifier of who answers, and the answer."""
    channel, answer = await visit(address, hello, ("word", "leader"), credentials)
    channel.close()
    return channel.peer.partition("@")[0], answer


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_port_goes_from_leader_to_leader_and_no_iteration_is_lost(cluster, caplog):
    port, peers = cluster
    caplog.set_level("INFO")
    progress(peers)
    assert peers[0].leads
    assert is_open(port)
    for left in (2, 1):
        leader = next(peer for peer in peers if peer.node.running and peer.leads)
        leader.die()
        rest = [peer for peer in peers if peer.node.running]
        assert len(rest) == left
        taken = [peer.call(peer.node._host.position) for peer in rest]
        progress(rest, by=5, timeout=120.0)
        wait(lambda: sum(peer.leads for peer in rest) == 1, 60, "one leader")  # noqa: B023 (it is called at once)
        assert is_open(port)
        for peer in rest:  # what any of them had taken stands in the history of all
            for position, head in taken:
                assert peer.node.ledger.head_at(position) == head
    (last,) = rest
    wait(lambda: len(last.node.state.election.members) == 1, 30, "the dead are removed")
    assert "nobody answered at the leader port" in caplog.text
    last.end(leave=True)
    wait(lambda: not is_open(port), 30, "the port is closed")
