"""A member turned hostile says anything under its own name: the others go on, and hold no more than before."""

import asyncio
import gc
import os
import random
from pathlib import Path

import numpy as np
import pytest
from fuzz_lab import HostileCluster
from node_lab import free_port, progress, report_on, wait

from neuro_cli.evolve.collector import ScoreReport, message_of
from neuro_cli.evolve.network.channel import dial, packed
from neuro_cli.fabric.base import Traffic
from neuro_cli.selection.base import Scores
from neuro_cli.selection.linear_combination import LinearCombination

BATCH = 250  # messages, after which the others must still commit


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Return the bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module", params=["raft", "takeover"])
def cluster(request, tmp_path_factory):
    election = "raft" if request.param == "raft" else f"takeover {free_port()}"
    made = HostileCluster(tmp_path_factory.mktemp("hostile"), election, pytest.MonkeyPatch)
    yield made
    made.end()


def test_the_grammar_has_all_that_peers_say(cluster):
    said = cluster.grammar.said
    hellos = {"hello for link", "hello for enter", "hello for leave", "hello for fetch"}
    assert {"ping", "report", "ok", "cluster", "members", "records", *hellos} <= said.keys()
    assert sum(sort.startswith("election ") for sort in said) >= 2, sorted(said)


def test_wrong_reports_end_their_senders_connection_and_stall_nothing(cluster, caplog):
    for peer in cluster.honest:
        assert cluster.say(peer, [packed(message_of(report_on(cluster.name, peer.iteration)) | {"n": -180})]) == 1
    progress(cluster.honest, by=10)
    # over a real connection: it is ended, and one line names the sender
    leader = next(peer for peer in cluster.honest if peer.leads)

    async def visit() -> None:
        hello = cluster.hello("link")
        channel, _ = await dial(leader.node.me, cluster.credentials.client, Traffic(), hello, ("ok",), 10.0)
        channel.send(message_of(report_on(cluster.name, leader.iteration)) | {"n": -180})
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(channel.receive(), 10)
        channel.close()

    asyncio.run(visit())
    wait(lambda: f"{cluster.name} sent what is no message of this version: report: n=-180" in caplog.text, 10)
    progress(cluster.honest)


def test_a_report_that_makes_no_record_is_dropped_with_its_senders_name(cluster, caplog, monkeypatch):
    """Fitnesses near the end of float32, with a shaping that takes them as they are."""
    leader = next(peer for peer in cluster.honest if peer.leads)
    monkeypatch.setattr(leader.node.leader, "_selection", LinearCombination(1.0, "raw"))

    def large() -> bytes:
        report = report_on(cluster.name, leader.iteration)
        scores = Scores(report.scores.iteration, report.scores.first, np.full(4, 3e38, np.float32))
        return packed(message_of(ScoreReport(scores, 4, report.means)))

    for _ in range(10):
        assert cluster.say(leader, [large()]) == 0  # every field of it is in its range
        progress(cluster.honest, by=1)
    assert f"the report of {cluster.name} on iteration" in caplog.text
    assert "makes no record: it is dropped" in caplog.text


def attacked(cluster: HostileCluster, kinds: tuple[str, ...], seed: int, messages: int) -> None:
    draw, grammar = random.Random(seed), cluster.grammar
    on_a_link = [sort for sort in grammar.said if sort.split()[0] in kinds]
    fetched = [sort for sort in ("records", "start", "snapshot", "none") if sort in grammar.said]
    before, ended = (descriptors(), resident()), 0
    for batch in range(messages // BATCH):
        peer = draw.choice(cluster.honest)
        contents = [grammar.bytes(draw, on_a_link) for _ in range(BATCH)]
        ended += sum(cluster.say(peer, contents[place : place + 25]) for place in range(0, BATCH, 25))
        for _ in range(10):
            cluster.answer(peer, [grammar.changed(draw, fetched) for _ in range(draw.randint(1, 4))])
        if batch % 4 == 0:
            for _ in range(5):
                asyncio.run(cluster.visit(peer, draw, on_a_link))
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


REPORTS, ELECTIONS = ("ping", "report"), ("election",)


@pytest.mark.parametrize("kinds", [REPORTS, ELECTIONS])
def test_a_hostile_member_stalls_nobody(cluster, kinds):
    attacked(cluster, kinds, 1, BATCH)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kinds", [REPORTS, ELECTIONS])
def test_a_hostile_member_stalls_nobody_for_long(cluster, kinds):
    attacked(cluster, kinds, 2, 50_000)
