"""Observations far from 0 are normalised as others are; what is no finite number is named, and what gave it."""

import logging
import warnings

import numpy as np
import pytest
import torch
from support.configs import composed
from support.inside import neuro_inside
from support.made_data import load
from torch import nn

pytest.importorskip("gymnasium")

import stub_environments

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options
from neuro_cli.task.reinforcement import Reinforcement
from neuro_cli.task.reinforcement.observations import NormalisedPolicy, ObservationStatistics
from neuro_cli.task.reinforcement.policies import policies_of
from neuro_cli.task.reinforcement.task import plan_of

FEW = ("task=gymnasium", "model.hidden=[4]", "population=6", "threads=1", "generations=2")


def parts_of(kind: str, *overrides: str) -> Parts:
    return build(Options(composed(*FEW, f"task.id={kind}", *overrides)), SingleProcess())


def learn(task: Reinforcement, generation: int) -> None:
    """Take in the observations of 100 episodes, rounded as they travel."""
    seeds = np.arange(100) + 100 * generation
    outcome = task.play(plan_of(seeds[None]), policies_of(nn.Linear(3, 2), len(seeds), (3,)), task.normaliser)
    task.absorb(generation, task.columns(outcome).mean(axis=0).astype(np.float32).astype(np.float64), len(seeds))


@pytest.mark.parametrize("deviation", [0.5, 30.0])
@pytest.mark.parametrize("ratio", [0.0, 1e3, 3e3, 1e4, 3e4, 1e6, 1e9])
def test_deviations_are_told_from_any_mean(ratio, deviation):
    """From the second generation on, or from the first where float32 sums tell them."""
    task = load(Reinforcement("Offset-v0", options={"offset": ratio * deviation, "deviation": deviation}))
    for generation in range(4):
        learn(task, generation)
        statistics = task.statistics
        if generation or ratio < 1e3:
            assert statistics.deviation[1] == pytest.approx(deviation, rel=0.1)
        assert statistics.mean[1] == pytest.approx(ratio * deviation, abs=64 * deviation if generation == 0 else deviation / 5)
        assert statistics.deviation[[0, 2]] == pytest.approx(1.0, rel=0.1)
    assert statistics.count == 4 * 100 * stub_environments.STEPS


def test_a_policy_sees_what_varies_around_a_large_mean():
    """In training and when it is loaded: of 1e9 and something, float32 keeps 1e9."""
    task = load(Reinforcement("Offset-v0", options={"offset": 1e9}))
    for generation in range(2):
        learn(task, generation)
    seen = []

    class Watching(nn.Linear):
        def forward(self, x):
            seen.append(x.clone())
            return super().forward(x)

    task.play(plan_of(np.array([[5]])), policies_of(Watching(3, 2), 1, (3,)), task.normaliser)
    given = torch.cat(seen)
    assert given.std(dim=0) == pytest.approx(np.ones(3), abs=0.7)

    environment = task.maker.make()
    steps = [environment.reset(seed=5)[0]] + [environment.step(0)[0] for _ in range(len(given) - 1)]
    deployed = task.deployed(nn.Identity())
    assert torch.allclose(deployed(torch.from_numpy(np.stack(steps))), given, atol=1e-6)
    assert {name for name, _ in deployed.named_buffers()} == {"base", "mean", "inverse"}


def test_statistics_with_a_late_start_come_back_to_the_same_bits():
    task = load(Reinforcement("Offset-v0", options={"offset": 1e7}))
    learn(task, 0)
    assert task.statistics.missed.tolist() == [0, task.statistics.count, 0]
    again = ObservationStatistics.of(task.state())
    for statistics in (task.statistics, again):
        statistics.add(10, np.array([1.0, 2.0, 3.0]), np.array([10.0, 11.0, 12.0]))
    assert all(np.array_equal(getattr(again, name), getattr(task.statistics, name)) for name in ("mean", "squares", "missed"))
    earlier = {name: tensor for name, tensor in task.state().items() if name != "missed"}  # of an earlier version's checkpoint
    assert not ObservationStatistics.of(earlier).missed.any()
    assert NormalisedPolicy(nn.Identity(), ObservationStatistics(2), 5.0).base is None


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("BadObservation-v0", "nan", r"observation\[1\] is nan at step 3 of the episode with seed \d+; .* finite numbers"),
        ("BadObservation-v0", "inf", r"observation\[1\] is inf at step 3 of the episode"),
        (
            "BadObservation-v0",
            "1e25",
            r"observation\[1\] is 1e\+25 at step 3 .*1e\+15 deviations from the mean, task\.normalise=false",
        ),
        (
            "BadReward-v0",
            "nan",
            r"the sum of the rewards is nan at step 3 of the episode with seed \d+; a reward must be finite$",
        ),
        ("BadReward-v0", "-inf", r"the sum of the rewards is -inf at step 3 "),
    ],
)
def test_what_is_no_finite_number_is_named_with_its_place(kind, value, words):
    parts = parts_of(kind, f"+task.options.value={value}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError, match=rf"^task\.id={kind}: {words}"):
            parts.distribution.step(0)


@pytest.mark.parametrize(("value", "runs"), [("1e30", True), ("1e39", False), ("nan", False)])
def test_without_statistics_a_policy_takes_what_float32_holds(value, runs):
    parts = parts_of("BadObservation-v0", f"+task.options.value={value}", "task.normalise=false")
    if runs:
        parts.distribution.step(0)
        return
    with pytest.raises(
        UserError, match=r"observation\[1\] is (nan|1e\+39) at step 3 .*; a policy takes finite numbers of float32$"
    ):
        parts.distribution.step(0)


def test_members_with_such_numbers_come_last_where_that_is_asked_for(caplog):
    """Those that choose 1 at one step and have no return; the others have the bits that they have alone."""
    parts = parts_of("Unlucky-v0", "algo.non_finite=worst", "task.episodes=1", "population=10", "algo.sigma=1")
    report = parts.distribution.step(0)
    assert 0 < report.non_finite < 10
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 1
    assert warned[0].startswith("task.id=Unlucky-v0: the sum of the rewards is nan at step ")
    assert warned[0].endswith("its member is ranked last, as all others with such numbers")


def test_an_episode_of_the_test_without_a_return_is_said(caplog):
    task = load(Reinforcement("BadReward-v0", options={"value": float("nan")}, evaluation_episodes=2, normalise=False))
    sums = task.evaluate_chunk(nn.Linear(3, 2), 0)
    assert np.isnan(sums[0])
    assert "the sum of the rewards is nan at step 3" in caplog.text
    assert "this episode of the test has no return" in caplog.text


def test_a_command_names_the_observation(tmp_path):
    made = neuro_inside(
        "train",
        *FEW,
        "task.id=stub_environments:BadObservation-v0",
        "+task.options.value=1e20",
        "hydra.run.dir=run",
        cwd=tmp_path,
    )
    assert made.returncode == 2
    last = made.stderr.strip().splitlines()[-1]
    assert last.startswith("neuro: error: task.id=stub_environments:BadObservation-v0: observation[1] is 1e+20 at step 3")
    assert "overflow" not in made.stderr
