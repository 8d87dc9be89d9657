"""Whether an environment repeats is tried before it is used: what is done and said for environments that leave traces."""

import logging
import random

import numpy as np
import pytest
import torch
from support.made_data import load
from torch import nn

pytest.importorskip("gymnasium")

import stub_environments

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.reinforcement import Reinforcement
from neuro_cli.task.reinforcement.policies import policies_of
from neuro_cli.task.reinforcement.task import plan_of


def returns(task: Reinforcement, seeds: list[int]) -> np.ndarray:
    """Returns by one linear policy."""
    policy = nn.Linear(task.spaces.inputs, task.spaces.outputs)
    with torch.no_grad():
        policy.weight.copy_(torch.linspace(-1, 1, policy.weight.numel()).sin().view_as(policy.weight))
        policy.bias.zero_()
    return task.play(plan_of(np.array([seeds])), policies_of(policy, len(seeds), task.spaces.shape), None).returns


@pytest.mark.parametrize(
    ("kind", "choices"), [("Traces-v0", {}), ("BipedalWalker-v3", {"max_steps": 60})], ids=["stub", "BipedalWalker"]
)
def test_an_environment_that_leaves_traces_is_made_anew_by_itself(kind, choices, caplog):
    """So that returns do not depend on how many environments there are."""
    if kind.startswith("Bipedal"):
        pytest.importorskip("Box2D")
    caplog.set_level(logging.INFO)
    few, many = (load(Reinforcement(kind, normalise=False, environments=count, **choices)) for count in (2, 16))
    assert few.recreate
    line = f"task.id={kind}: after another episode it differs in the observation at step 1: every episode has a new one"
    assert line in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    seeds = list(range(20))
    assert np.array_equal(returns(few, seeds), returns(many, seeds))


def test_what_the_user_asks_for_stays_and_is_said(caplog):
    assert not load(Reinforcement("Traces-v0", anew=False)).recreate
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(
        "task.id=Traces-v0: task.anew=false: after another episode it differs in the observation"
    )
    caplog.clear()
    assert load(Reinforcement("Traces-v0", anew=True)).recreate
    assert load(Reinforcement("Stub-v0", anew=True)).recreate
    assert not load(Reinforcement("Stub-v0", anew=False)).recreate
    assert not load(Reinforcement("Stub-v0")).recreate
    assert not caplog.records


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("NumpyDraws-v0", "observation at step 0: it draws from np.random, which no seed of an episode reaches"),
        ("PythonDraws-v0", "observation at step 0: it draws from Python's random, which no seed of an episode reaches"),
        ("Unseeded-v0", r"reward at step 1: reset(seed=...) does not decide it"),
    ],
)
@pytest.mark.parametrize("asked", [None, True, False])
def test_an_environment_that_no_seed_reaches_is_named_with_the_reason(kind, why, asked, caplog):
    before = np.random.get_state()[1].copy(), random.getstate()
    task = load(Reinforcement(kind, anew=asked))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert (
        record.getMessage() == f"task.id={kind}: the run will not repeat: two new environments with one seed differ in the {why}"
    )
    assert task.recreate is bool(asked)
    if kind == "Unseeded-v0":  # nothing is drawn there, so that what the trial of seeds did would show
        assert np.array_equal(np.random.get_state()[1], before[0])
        assert random.getstate() == before[1]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("RewardVector-v0", r"^task\.id=RewardVector-v0: a reward has the shape \(2,\): task\.reward_weights="),
        ("Shapeless-v0", r"^task\.id=Shapeless-v0: an observation has the shape \(1,\), its observation_space \(3,\)$"),
        ("Broken-v0", r"^task\.id=Broken-v0: cannot be made: AssertionError \(\w+\.py:\d+; gymnasium [\d.]+"),
        (
            "Falls-v0",
            r"^task\.id=Falls-v0: its step\(action\) fails: AttributeError: .*'flex' \(stub_environments\.py:\d+; gymnasium ",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_at_the_start_in_one_line(kind, line):
    with pytest.raises(ConfigError, match=line) as caught:
        load(Reinforcement(kind))
    assert "\n" not in str(caught.value)


def test_observations_may_be_lists():
    plain, lists = (load(Reinforcement(kind, normalise=False)) for kind in ("Stub-v0", "Lists-v0"))
    assert np.array_equal(returns(lists, [3, 4, 5]), returns(plain, [3, 4, 5]))


def test_rewards_of_narrow_types_add_up():
    ones = stub_environments.STEPS - 1
    assert returns(load(Reinforcement("HalfRewards-v0", normalise=False)), [1]) == [2047 + ones]
    assert returns(load(Reinforcement("SingleRewards-v0", normalise=False)), [1]) == [2**24 + ones]


def test_environments_are_closed_with_their_task():
    """As at the end of the process, where it is kept till then."""
    task = load(Reinforcement("Stub-v0", environments=3))
    returns(task, list(range(5)))
    stub_environments.CLOSED.clear()
    del task
    assert stub_environments.CLOSED == ["Stub"] * 3
