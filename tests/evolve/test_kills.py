"""Fifty kills: peers of a cluster are killed in random order, the leader at least every other time, others join meanwhile."""

import os
import random
import statistics
import time
from pathlib import Path

import pytest
from cluster_lab import Lab, Peer, consistent, leader_lines
from node_lab import free_port

from neuro_cli.evolve.identity import canonical, cluster_identity
from neuro_cli.evolve.ledger.ledger import origin
from neuro_cli.evolve.ledger.record import decoded
from neuro_cli.evolve.training.model import apply, steps_of
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.build import build
from neuro_cli.runner.load import read_config
from neuro_cli.runner.options import Options

KILLS, SIZE = int(os.environ.get("NEURO_KILLS", "50")), 5
# few iterations a second: what a newcomer replays is not the subject here
WORK = ("population=16", "batch_size=64")
pytestmark = pytest.mark.slow


def replayed(run: Path, ledger, iterations: set[int]) -> dict[int, str]:
    """SHA-256 of the parameters after each of ``iterations``, by a replay from the initial seed."""
    parts = build(Options(read_config(run, None)), SingleProcess())
    steps = steps_of(parts)
    identity = cluster_identity(parts.config.plain, parameters_sha256(steps.centre))
    assert origin(canonical(identity)) == ledger.head_at(0)
    found = {0: parameters_sha256(steps.centre)}
    for number, content in enumerate(ledger.records):
        apply(parts, decoded(content), b"")
        if number + 1 in iterations:
            found[number + 1] = parameters_sha256(steps.centre)
    parts.threads.close()
    return found


def buried(victim: Peer, survivors: list[Peer]) -> bool:
    """Return whether a leader among ``survivors`` has removed ``victim``."""
    return any(f"@{victim.address} has said nothing" in (peer.run / "log.txt").read_text() for peer in survivors)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("election", ["raft", "takeover"])
def test_no_committed_iteration_is_lost(tmp_path, election, record_property):
    kills = KILLS if election == "raft" else KILLS // 5
    port = [f"election.port={free_port()}"] if election == "takeover" else []
    lab = Lab(tmp_path, f"election={election}", *port, "generations=10000000", "cluster.grace=3.0", "cluster.deadline=2.0", *WORK)
    draw = random.Random(1)
    first = lab.start()
    for _ in range(SIZE - 1):
        lab.start(join=first.address)
    elected, resumed, leaders = [], [], 0
    try:
        lab.wait(lambda: lab.entered(lab.alive), 120, "the first cluster")
        for number in range(kills):
            lab.wait(lambda: len(lab.alive) >= SIZE - 1 and lab.entered(lab.alive), 600, f"a whole cluster before kill {number}")
            leader = lab.leader()
            assert leader is not None
            victim = leader if number % 2 == 0 else draw.choice(lab.alive)
            was_leader = victim is leader
            leaders += was_leader
            before = max(peer.iteration() for peer in lab.alive)
            moment = victim.kill()
            survivors = lab.alive
            newcomer = ["cluster.from_run=" + str(victim.run)] if draw.random() < 0.3 else []
            lab.start(*newcomer, join=draw.choice(survivors).address)
            lab.wait(lambda now=survivors, past=before: min(peer.iteration() for peer in now) > past + 3, 60, "training again")
            resumed.append(time.time() - moment)
            lab.wait(lambda now=survivors, dead=victim: buried(dead, now), 60, "the removal of the dead")
            if was_leader:
                lines = [line for peer in survivors for line in leader_lines(peer.run, moment)]
                elected.append(min(when for when, _ in lines) - moment)
            if number % 10 == 9:
                print(f"{number + 1} kills, {before} iterations", flush=True)
        lab.wait(lambda: len(lab.alive) == SIZE and lab.entered(lab.alive), 600, "a whole cluster at the end")
    finally:
        lab.end()
    survivors = [peer for peer in lab.peers if (peer.run / "summary.json").exists()]
    assert len(survivors) == SIZE
    if election == "raft":
        total = consistent(lab.ledgers())
    else:  # what a killed leader told nobody was not committed
        total = consistent([ledger for ledger, peer in zip(lab.ledgers(), lab.peers, strict=True) if peer in survivors])
    longest = max(lab.ledgers(), key=lambda ledger: ledger.next) if election == "raft" else None
    ends = {peer.summary()["generations"] for peer in survivors}
    best = longest or max((ledger for ledger in lab.ledgers()), key=lambda ledger: ledger.next)
    truth = replayed(survivors[0].run, best, ends)
    for peer in survivors:
        assert peer.summary()["parameters_sha256"] == truth[peer.summary()["generations"]]
    print(
        f"{election}: {kills} kills ({leaders} of leaders), {total} iterations; seconds to a new leader: median "
        f"{statistics.median(elected):.2f}, most {max(elected):.2f}; to training again: median {statistics.median(resumed):.2f}, "
        f"most {max(resumed):.2f}"
    )
    assert leaders >= kills / 2
    if election != "takeover":  # which has no clock but the peers' own iterations
        assert statistics.median(elected) < 3.0
