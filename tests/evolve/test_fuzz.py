"""A member turned hostile says anything under its own name: the others go on, and hold no more than before."""

import asyncio
import gc
import os
import random
import struct
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from fuzz_lab import Grammar, learnt
from node_lab import InProcess, free_port, progress, report_on, wait

from neuro_cli.election.plain import packed, unpacked
from neuro_cli.evolve.collector import ScoreReport, message_of
from neuro_cli.evolve.identity import FORMAT
from neuro_cli.evolve.network.channel import ChannelTraffic, RefusedError, dial
from neuro_cli.evolve.state_transfer import fetch
from neuro_cli.selection.base import Scores
from neuro_cli.selection.linear_combination import LinearCombination

# what ends a connection and nothing else: as in Listener.accept
ENDS = (ConnectionError, LookupError, TypeError, ValueError, AttributeError)
BATCH = 250  # messages, after which the others must still commit


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def with_port(election: str) -> str:
    return election if election == "raft" else f"{election} {free_port()}"


class Cluster:
    """Two honest peers, and the credentials of a third member whose process is no longer what it was."""

    def __init__(self, folder: Path, election: str) -> None:
        first = InProcess(folder / "a", election, grace=600.0)
        self.honest = [first, InProcess(folder / "b", election, join=first.address, grace=600.0)]
        hostile = InProcess(folder / "h", election, join=first.address, grace=600.0)
        progress([*self.honest, hostile])
        hostile.end()
        self.name, self.credentials = hostile.node.me, hostile.node.state.credentials
        wait(lambda: any(peer.leads for peer in self.honest), 30, "an honest leader")
        progress(self.honest)

    def hello(self, purpose: str, **more) -> dict:
        cluster = self.honest[0].node.state.cluster
        return {"k": "hello", "for": purpose, "format": FORMAT, "peer": self.name, "cluster": cluster, **more}

    def say(self, peer: InProcess, contents: list[bytes]) -> int:
        """``contents`` as messages on a link, one after the other; how many would have ended it."""

        def heard() -> int:
            ended = 0
            for content in contents:
                try:
                    message = unpacked(content)
                    if isinstance(message, dict):
                        peer.node.listener.received(self.name, message)
                except ENDS:
                    ended += 1
            return ended

        return peer.call(heard)

    def answer(self, peer: InProcess, messages: list[dict]) -> None:
        """``messages`` to a fetch of ``peer``."""

        class Said:
            most = 0

            async def receive(self) -> dict:
                if not messages:
                    raise ConnectionError("the connection has ended")
                message = unpacked(packed(messages.pop(0)))
                assert isinstance(message, dict)
                return message

        async def fetched() -> None:
            with suppress(*ENDS):
                await fetch(Said(), peer.node.peer_ledger)

        asyncio.run_coroutine_threadsafe(fetched(), peer.node.loop).result(30)

    def end(self) -> None:
        for peer in self.honest:
            peer.end()


async def over_tls(cluster: Cluster, peer: InProcess, grammar: Grammar, draw: random.Random, sorts: list[str]) -> None:
    """One connection as a member: a hello, changed or not, and what comes after it."""
    with suppress(*ENDS, RefusedError, OverflowError):  # it may be told anything
        changed = draw.random() < 0.5
        hellos = [sort for sort in grammar.said if sort.startswith("hello for ")]
        hello = cluster.hello("link") if not changed else grammar.changed(draw, hellos) | {"peer": cluster.name}
        channel, _ = await dial(peer.node.me, cluster.credentials.client, ChannelTraffic(), hello, ("ok", "cluster"), 10.0)
        for _ in range(5):
            content = grammar.bytes(draw, sorts)
            length = draw.choice((len(content), len(content), len(content), 2**31, 0, len(content) + 1))
            channel._writer.write(struct.pack(">I", length) + content)
        await channel._writer.drain()
        channel.close()


@pytest.fixture(scope="module", params=["raft", "takeover"])
def learning(request, tmp_path_factory):
    election = with_port(request.param)
    return election, learnt(tmp_path_factory.mktemp("learnt"), election, pytest.MonkeyPatch)


def test_the_grammar_has_all_that_peers_say(learning):
    _, grammar = learning
    wanted = {"ping", "report", "hello for link", "hello for enter", "hello for fetch", "ok", "cluster", "members", "records"}
    assert wanted <= grammar.said.keys()
    assert sum(sort.startswith("election ") for sort in grammar.said) >= 2, sorted(grammar.said)


def attacked(learning, folder: Path, what: str, seed: int, messages: int) -> None:
    election, grammar = learning
    if what == "elections" and find_spec("neuro_cli.election.messages") is None:
        pytest.skip("these elections do not check their messages yet")
    draw = random.Random(seed)
    kinds = ("election",) if what == "elections" else ("ping", "report")
    on_a_link = [sort for sort in grammar.said if sort.split()[0] in kinds]
    fetched = [sort for sort in ("records", "start", "snapshot", "none") if sort in grammar.said]
    cluster = Cluster(folder, election)
    try:
        before = (descriptors(), resident())
        ended = 0
        for batch in range(messages // BATCH):
            peer = draw.choice(cluster.honest)
            contents = [grammar.bytes(draw, on_a_link) for _ in range(BATCH)]
            ended += sum(cluster.say(peer, contents[place : place + 25]) for place in range(0, BATCH, 25))
            for _ in range(10):
                cluster.answer(peer, [grammar.changed(draw, fetched) for _ in range(draw.randint(1, 4))])
            if batch % 4 == 0:
                for _ in range(5):
                    asyncio.run(over_tls(cluster, peer, grammar, draw, on_a_link))
            progress(cluster.honest, by=2, timeout=60.0)
        assert ended > messages / 10
        for peer in cluster.honest:
            node = peer.node
            sizes = [len(node.heartbeat.last_heard), len(node.heartbeat.progress), len(node.leader.collector._progress)]
            assert max(sizes) <= 8, sizes
            assert peer.scorer.is_alive()
        gc.collect()  # sockets that the attacker's own loops left open
        # some connections are still being closed
        wait(lambda: descriptors() <= before[0] + 10, 30, f"descriptors: {before[0]}, now {descriptors()}")
        assert resident() - before[1] < 200 * 2**20
    finally:
        cluster.end()


STALLING = (
    {"n": -180}, {"n": -10000}, {"n": 2**63}, {"m": 2**40}, {"m": -5}, {"n": 2**33}, {"i": 2**64 - 1},
    {"f": b"\0\0\0\0\0\0\xf8\x7f" * 4},
)  # fmt: skip


@pytest.mark.parametrize("election", ["raft", pytest.param("takeover", marks=pytest.mark.slow)])
def test_wrong_reports_end_their_senders_connection_and_stall_nothing(election, tmp_path, caplog):
    cluster = Cluster(tmp_path, with_port(election))
    try:
        for change in STALLING:
            for peer in cluster.honest:
                at = peer.iteration
                report = message_of(report_on(cluster.name, at)) | change
                assert cluster.say(peer, [packed(report)]) == 1
        progress(cluster.honest, by=10)
        # over a real connection: it is ended, and one line names the sender
        leader = next(peer for peer in cluster.honest if peer.leads)

        async def visit() -> None:
            hello = cluster.hello("link")
            channel, _ = await dial(leader.node.me, cluster.credentials.client, ChannelTraffic(), hello, ("ok",), 10.0)
            channel.send(message_of(report_on(cluster.name, leader.iteration)) | {"n": -180})
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(channel.receive(), 10)
            channel.close()

        asyncio.run(visit())
        wait(lambda: f"{cluster.name} sent what is no message of this version: report: n=-180" in caplog.text, 10)
        progress(cluster.honest)
    finally:
        cluster.end()


def test_a_report_of_which_no_record_can_be_made_is_dropped_with_its_senders_name(tmp_path, caplog):
    """Fitnesses near the end of float32, with a shaping that takes them as they are."""
    cluster = Cluster(tmp_path, with_port("takeover"))
    try:
        (leader,) = (peer for peer in cluster.honest if peer.leads)
        leader.call(setattr, leader.node.leader, "_selection", LinearCombination(1.0, "raw"))

        def large() -> bytes:
            report = report_on(cluster.name, leader.iteration)
            scores = Scores(report.scores.iteration, report.scores.first, np.full(4, 3e38, np.float32))
            return packed(message_of(ScoreReport(scores, 4, report.means)))

        for _ in range(20):
            assert cluster.say(leader, [large()]) == 0  # every field of it is in its range
            progress(cluster.honest, by=1)
        assert f"the report of {cluster.name} on iteration" in caplog.text
        assert "makes no record: it is dropped" in caplog.text
        progress(cluster.honest)
    finally:
        cluster.end()


@pytest.mark.parametrize("what", ["reports", "elections"])
def test_a_hostile_member_stalls_nobody(learning, what, tmp_path):
    attacked(learning, tmp_path, what, 1, 500)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("what", ["reports", "elections"])
def test_a_hostile_member_stalls_nobody_for_long(learning, what, tmp_path):
    attacked(learning, tmp_path, what, 2, 50_000)
