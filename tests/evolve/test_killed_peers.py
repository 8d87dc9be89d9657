"""A peer that is killed at a write of its folder loses nothing that was committed, and another continues from that folder."""

import signal

import pytest
from cluster_lab import Lab, consistent
from support.inside import neuro_inside, well
from support.killed import dying
from test_kills import replayed

from neuro_cli.evolve.ledger.file import NAME, read_ledger

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("call", "name", "count"),
    [
        ("write", NAME, 7),  # committed, and not in the file
        ("fsync", NAME, 2),  # before a checkpoint
        ("fsync", "*.safetensors.tmp", 2),
        ("replace", "state.json", 2),
        ("replace", NAME, 2),  # the compacted ledger
        ("unlink", "*.safetensors", 1),
    ],
)
def test_three_peers_one_killed_amid_a_write_and_one_joining(tmp_path, call, name, count):
    lab = Lab(tmp_path, "generations=1000000", "cluster.grace=3.0", "cluster.deadline=2.0", "population=16", "batch_size=64")
    own = ("checkpoint.every=4", "checkpoint.keep=1", "cluster.compact_every=6")
    first = lab.start()
    third = lab.start(join=first.address)
    victim = lab.start(*own, join=first.address, neuro=dying(call, name, count))
    try:
        lab.wait(lambda: not victim.alive, 120, "the kill")
        assert victim.process.wait() == -signal.SIGKILL, victim.errors()
        newcomer = lab.start(*own, f"cluster.from_run={victim.run}", join=third.address)
        lab.wait(lambda: lab.entered([newcomer]), 120, "the newcomer")
        before = first.iteration()
        lab.wait(lambda: min(peer.iteration() for peer in lab.alive) > before + 3, 60, "further iterations")
        assert len(lab.alive) == 3
    finally:
        lab.end()
    ends = {peer: peer.summary() for peer in (first, third, newcomer)}
    left = read_ledger(victim.run)
    assert consistent(lab.ledgers()) == max(summary["generations"] for summary in ends.values())
    ledger = max((read_ledger(peer.run) for peer in (first, third)), key=lambda each: each.next)
    truth = replayed(first.run, ledger, {left.next, *(summary["generations"] for summary in ends.values())})
    for summary in ends.values():
        assert summary["parameters_sha256"] == truth[summary["generations"]]
    exported = well(neuro_inside("evolve", "export", victim.run.name, cwd=tmp_path))
    assert f"iteration {left.next}, parameters {truth[left.next][:16]}, ledger {left.head.hex()[:16]}" in exported.stdout
    assert not list(newcomer.run.rglob("*.tmp*"))
