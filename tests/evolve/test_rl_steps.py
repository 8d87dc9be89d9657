"""Reinforcement learning by seed passing: what a task learns of observations is committed, so it is the same at every peer."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.configs import composed
from support.facts import read_facts
from support.inside import neuro_inside

from neuro_cli.evolve.ledger.record import LedgerRecord, decoded, encoded
from neuro_cli.evolve.peer_ledger import Snapshot
from neuro_cli.evolve.training.model import apply, check_model, restore_snapshot, snapshot_of, steps_of
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.selection.base import Step

pytest.importorskip("gymnasium")
CARTPOLE = ("task=lunar_lander", "task.id=CartPole-v1", "task.evaluation_episodes=10", "model=mlp_policy", "model.hidden=[4]")


@pytest.fixture
def made():
    found = []

    def build_one(*more: str):
        found.append(build(Options(composed("population=6", "threads=1", *CARTPOLE, *more, verb="evolve")), SingleProcess()))
        return found[-1]

    yield build_one
    for parts in found:
        parts.threads.close()


def committed(parts, iteration: int) -> LedgerRecord:
    """Record that a cluster of one would commit of this iteration, by really playing it."""
    job = parts.distribution.job
    scores = job.scorer.scores(steps_of(parts).proposal(), iteration, range(6)) / job.scorer.examples
    step = Step(iteration, 0, np.linspace(-0.1, 0.1, 6, dtype=np.float32))
    record = LedgerRecord(iteration, 1, 1, 6, 0.0, 0, bytes(8), (step,), scores.mean(axis=0).astype(np.float32))
    return decoded(encoded(record))


def same(one: Snapshot, other: Snapshot) -> bool:
    return one.tensors.keys() == other.tensors.keys() and all(
        torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items()
    )


def test_a_replay_and_a_snapshot_in_its_middle_give_the_same_policy_and_statistics(made):
    live, replayed, late = (made("algo.average=0.5") for _ in range(3))
    start, records, middle = snapshot_of(live), [], None
    for iteration in range(4):
        records.append(committed(live, iteration))
        apply(live, records[-1], bytes([iteration]) * 32)
        middle = snapshot_of(live) if iteration == 1 else middle
    assert not same(start, snapshot_of(live))
    assert live.task.statistics.count == sum(record.means[1] * record.members for record in records) > 24

    for iteration, record in enumerate(records):
        apply(replayed, record, bytes([iteration]) * 32)
    assert same(snapshot_of(replayed), snapshot_of(live))

    restore_snapshot(late, middle)
    assert steps_of(late).iteration == 2
    for iteration in (2, 3):
        apply(late, records[iteration], bytes([iteration]) * 32)
    assert same(snapshot_of(late), snapshot_of(live))
    assert torch.equal(snapshot_of(late).tensors["average"], steps_of(live).solution)
    restore_snapshot(live, start)  # as when a peer's history gives way to another
    assert same(snapshot_of(live), start)


def test_two_peers_learn_one_policy(tmp_path):
    small = (
        "population=6",
        "generations=6",
        "cluster.local_peers=2",
        "cluster.deadline=60",
        "evaluate.every=100",
        "threads=1",
        "hydra.run.dir=run",
    )
    done = neuro_inside("evolve", *CARTPOLE, *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    founder, other = (json.loads((tmp_path / run / "summary.json").read_text()) for run in ("run", "run/peers/1"))
    assert founder["parameters_sha256"] == other["parameters_sha256"]
    assert founder["mean_return"] == other["mean_return"] > 5
    rows = [line.split(",") for line in (tmp_path / "run/metrics.csv").read_text().splitlines()]
    # an episode of CartPole has at least 8 steps; on a busy machine a peer may miss an iteration, not all of them
    assert max(float(row[rows[0].index("environment_steps")]) for row in rows[1:]) >= 2 * 6 * 8
    again = neuro_inside("evolve", "export", "run", "from_start=true", cwd=tmp_path)
    assert f"iteration 6, parameters {founder['parameters_sha256'][:16]}" in again.stdout
    exported = load_file(tmp_path / "run/model.safetensors")
    assert exported["inverse"].shape == (4,)  # of the statistics: the policy works by itself
    assert neuro_inside("export", "run", "file=policy.safetensors", cwd=tmp_path).returncode == 0
    found = load_file(tmp_path / "policy.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in exported.items())
    assert read_facts(tmp_path / "policy.safetensors")["metric"]["value"] == founder["mean_return"]
    evaluated = neuro_inside("evaluate", "run", cwd=tmp_path)
    assert f"{founder['mean_return']:.1f}" in evaluated.stdout


def test_an_address_leads_to_episodes_of_its_own(made):
    parts = made("task.common_episodes=false", "task.episodes=2")
    check_model(parts)
    job, steps, first = parts.distribution.job, steps_of(parts), 2 * (2**32 - 5)
    found = job.scorer.scores(steps.proposal(), 3, range(first, first + 4))
    for row, (direction, sign) in enumerate(((2**32 - 5, 1), (2**32 - 5, -1), (2**32 - 4, 1), (2**32 - 4, -1))):
        policy = job.scorer.settings.module_at(steps.centre + sign * steps.sigma * job.sampler.explicit(3, direction))
        alone = parts.task.score(policy, parts.task.batch(3, 2 * direction, 2 * direction + 2))
        np.testing.assert_allclose(found[row, :2], alone[:2])
