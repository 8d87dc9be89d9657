"""Strangers cost little: few connections at once, small first messages, a line a minute; who knows the secret gets through."""

import asyncio
import logging
import socket

import pytest
from node_lab import AUTHORITY, InProcess, progress, visit, wait

from neuro_cli.evolve.identity import FORMAT
from neuro_cli.evolve.network.admission import STRANGERS
from neuro_cli.evolve.network.channel import FIRST, ChannelTraffic, dial
from neuro_cli.evolve.network.rate_limit import PERIOD, RateLimitedLog

STATUS = {"for": "status", "peer": "nobody", "cluster": ""}


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    made = InProcess(tmp_path_factory.mktemp("peer") / "a", "raft")
    yield made
    made.end()


def test_strangers_are_few_at_once_and_said_in_one_line(peer, caplog):
    admission = peer.node.listener.admission
    host, _, port = peer.address.partition(":")
    strangers = []
    try:
        for _ in range(5):
            strangers += [socket.create_connection((host, int(port)), timeout=10) for _ in range(50)]
            wait(lambda: peer.call(lambda: admission.strangers) > 0)
            assert peer.call(lambda: admission.strangers) <= STRANGERS
            # the oldest of them gave way: somebody who knows the secret is not kept out
            asyncio.run(visit(peer.address, STATUS, ("status",)))
        progress([peer])
        wait(lambda: "it does not know the cluster's secret" in caplog.text)
        assert caplog.text.count("it does not know the cluster's secret") == 1
        peer.call(peer.node.listener.log_refusals, True)
        wait(lambda: "in all since the last such line" in caplog.text)
    finally:
        for stranger in strangers:
            stranger.close()
    wait(lambda: peer.call(lambda: admission.strangers) == 0, 20)


def test_a_first_message_is_small(peer):
    async def first(size: int) -> None:
        hello = {"k": "hello", "format": FORMAT, **STATUS, "peer": "x" * size}
        channel, _ = await dial(peer.address, AUTHORITY.fresh().client, ChannelTraffic(), hello, ("status",), 10.0)
        channel.close()

    asyncio.run(first(10))
    with pytest.raises(ConnectionError):
        asyncio.run(first(FIRST))


def test_one_key_has_few_connections(peer, monkeypatch):
    async def visits() -> int:
        mine = AUTHORITY.fresh()
        hello = {"for": "link", "peer": f"{mine.identifier}@127.0.0.1:1", "cluster": peer.node.state.cluster}
        monkeypatch.setattr(peer.node.state.election, "name", "takeover")  # which refuses no stranger to its members
        channels = [(await visit(peer.address, hello, ("ok",), mine))[0] for _ in range(20)]
        open_ones = 0
        for channel in channels:
            try:
                await asyncio.wait_for(channel.receive(), 0.2)
            except TimeoutError:
                open_ones += 1
            except ConnectionError:
                pass
            channel.close()
        return open_ones

    assert asyncio.run(visits()) == 8


class TestLines:
    def test_a_line_a_period_with_a_count(self, caplog):
        now = [0.0]
        lines = RateLimitedLog(logging.getLogger("neuro_cli.test"), clock=lambda: now[0])
        for number in range(100):
            lines.say(f"refused {number}")
        assert caplog.messages == ["refused 0"]
        now[0] = PERIOD / 2
        lines.due()
        assert len(caplog.messages) == 1
        now[0] = PERIOD
        lines.due()
        assert caplog.messages[1:] == ["refused 99 (and 99 in all since the last such line)"]
        lines.say("another")
        assert len(caplog.messages) == 2
        now[0] = 2 * PERIOD
        lines.say("later")
        assert caplog.messages[2:] == ["later (1 more before it)"]
        lines.due(at_once=True)
        assert len(caplog.messages) == 3
