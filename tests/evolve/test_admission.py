"""Strangers cost little: few connections at once, small first messages, a line a minute; who knows the secret gets through."""

import asyncio
import logging
import socket

import pytest
from node_lab import AUTHORITY, IDENTITY, LIMITS, InProcess, progress, visit, wait

from neuro_cli.evolve.network.channel import FIRST, RefusedError
from neuro_cli.evolve.network.listener import STRANGERS
from neuro_cli.evolve.network.rate_limit import PERIOD, RateLimitedLog


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    made = InProcess(tmp_path_factory.mktemp("peer") / "a", "raft")
    yield made
    made.end()


async def fetch(peer: InProcess, **more: str) -> None:
    """Visit as a newcomer that asks for the history; ``more``: keys that its run has and the cluster's has not."""
    mine = AUTHORITY.fresh()
    hello = {"for": "fetch", "peer": f"{mine.identifier}@127.0.0.1:1", "cluster": "", "identity": IDENTITY | more}
    channel, _ = await visit(peer.address, hello | {"next": 0, "head": LIMITS.origin}, ("cluster",), mine)
    channel.close()


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
            asyncio.run(fetch(peer))
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
    with pytest.raises(RefusedError, match="more is None in the cluster, xxxxxxxxxx at the newcomer"):
        asyncio.run(fetch(peer, more="x" * 10))
    with pytest.raises(ConnectionError):
        asyncio.run(fetch(peer, more="x" * FIRST))


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
