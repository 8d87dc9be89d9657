"""Environments of EnvPool: an episode's seed alone decides it; what EnvPool does not have is named in one line."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.run_folder.identity import identity_of, refuse_other
from neuro_cli.task.reinforcement.policies import policies_of
from neuro_cli.task.reinforcement.task import FRESH, Reinforcement, plan_of

gymnasium = pytest.importorskip("gymnasium")

SEEDS = np.array([[3, 6, 4, 5, 5, 3, 6, 4]])
OPTIONS = ("num_envs", "seed", "num_threads", "max_num_players", "max_episode_steps", "gravity")


class Pool:
    """Walks of two numbers: an environment ends after as many steps as its seed, and an action of 1 earns its seed."""

    def __init__(self, identifier, *, env_type, num_envs, num_threads, seed, max_episode_steps=99, gravity=1.0):
        assert (identifier, env_type, num_threads) == ("Walk-v0", "gymnasium", 1)
        assert num_envs == len(seed)
        self.gravity = gravity
        self.seeds, self.steps, self.limit = np.array(seed), np.zeros(num_envs, int), max_episode_steps
        self.over = np.zeros(num_envs, bool)

    def reset(self):
        assert not self.steps.any(), "an environment has one episode"
        return np.stack([self.seeds, self.steps], axis=1).astype(np.float32), {}

    def step(self, actions, numbers):
        assert numbers.dtype == np.int32
        assert len(set(numbers)) == len(numbers) == len(actions)
        assert not self.over[numbers].any(), "a step after the end would be a reset"
        self.steps[numbers] += 1
        seeds, steps = self.seeds[numbers], self.steps[numbers]
        terminated, truncated = steps >= seeds, steps >= self.limit
        self.over[numbers] = terminated | truncated
        observations = np.stack([seeds, steps], axis=1).astype(np.float32)
        return observations, (actions * seeds * self.gravity).astype(np.float32), terminated, truncated, {}


def spec_of(identifier, **options):
    numbers = dict.fromkeys(OPTIONS, 1) | options
    if not isinstance(numbers["gravity"], int | float):
        raise TypeError("incompatible constructor arguments\nThe following are supported")
    box = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    numbers["max_num_players"] = 2 if identifier == "PongForTwo" else 1
    config = type("Config", (SimpleNamespace,), {"_fields": OPTIONS})(**numbers)
    return SimpleNamespace(observation_space=box, action_space=gymnasium.spaces.Discrete(2), config=config)


@pytest.fixture
def package(monkeypatch):
    """A package with EnvPool's functions that are used, and environments whose returns are known."""
    module = SimpleNamespace(list_all_envs=lambda: ["Walk-v0", "PongForTwo"], make_spec=spec_of, make=Pool)
    monkeypatch.setitem(sys.modules, "envpool", module)


def loaded(identifier="Walk-v0", **settings):
    task = Reinforcement(id=identifier, simulator="envpool", **{"normalise": False, **settings})
    task.load(input_shape=None, device=torch.device("cpu"), seed=0, batch_size=1)
    return task


def linear(task, seed=0):
    generator = torch.Generator().manual_seed(seed)
    policy = torch.nn.Linear(task.spaces.inputs, task.spaces.outputs)
    with torch.no_grad():
        policy.weight.copy_(torch.randn(policy.weight.shape, generator=generator))
        policy.bias.zero_()
    return policy


def always_one(task):
    policy = linear(task)
    with torch.no_grad():
        policy.weight.zero_(), policy.bias.copy_(torch.tensor([0.0, 1.0]))
    return policy


@pytest.mark.parametrize("environments", [1, 2, 3, 8, 20])
def test_episodes_of_all_lengths_are_played_whole(package, environments):
    """Slots fall free at different steps, so environments of several pools run side by side."""
    task = loaded(environments=environments)
    for _ in range(2):  # the second schedule begins with no environment of the first
        outcome = task.play(plan_of(SEEDS), policies_of(always_one(task), SEEDS.size, task.spaces.shape), None)
        np.testing.assert_array_equal(outcome.returns, np.ravel(SEEDS) ** 2)
        np.testing.assert_array_equal(outcome.steps, np.ravel(SEEDS))


def test_a_reward_below_zero_at_the_end_is_a_penalty_unless_a_limit_ends_the_episode(package):
    task = loaded(options={"gravity": -1}, max_steps=5)
    outcome = task.play(plan_of(SEEDS), policies_of(always_one(task), SEEDS.size, task.spaces.shape), None)
    np.testing.assert_array_equal(outcome.returns, [-9, -30, -16, -25, -25, -9, -30, -16])
    np.testing.assert_array_equal(outcome.penalties, [-3, 0, -4, -5, -5, -3, 0, -4])


def test_the_limit_and_seeds_of_tests_reach_envpool(package):
    task = loaded(max_steps=2)
    plan = plan_of(np.array([[3, FRESH + 2**31 - 5]]))
    outcome = task.play(plan, policies_of(always_one(task), 2, task.spaces.shape), None)
    np.testing.assert_array_equal(outcome.steps, [2, 1])  # the second seed is -5 as int32, and such a walk ends at once
    assert outcome.returns[1] == -5


@pytest.mark.parametrize(
    ("identifier", "settings", "message"),
    [
        ("Walks-v0", {}, r"task\.id=Walks-v0: EnvPool has no such environment; did you mean Walk-v0\?; task\.simulator=auto"),
        ("PongForTwo", {}, r"task\.id=PongForTwo: one policy plays, this has 2 players"),
        ("Walk-v0", {"options": {"wind": 3}}, r"task\.options\.wind=3: no option of EnvPool's Walk-v0: \['gravity'\]"),
        ("Walk-v0", {"options": {"seed": 3}}, r"task\.options\.seed=3: no option of EnvPool's Walk-v0: \['gravity'\]"),
        (
            "Walk-v0",
            {"options": {"gravity": "x"}},
            r"task\.options=.*: not taken by EnvPool's Walk-v0: incompatible .* arguments",
        ),
        ("Walk-v0", {"anew": False}, r"task\.anew=False: task\.simulator=envpool has a new environment for every episode"),
    ],
)
def test_what_envpool_does_not_have_is_one_line(package, identifier, settings, message):
    with pytest.raises(ConfigError, match=f"^{message}") as caught:
        loaded(identifier, **settings)
    assert "\n" not in str(caught.value)


def test_a_missing_package_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError, match=r"^task\.simulator=envpool: envpool is not installed: pip install '.*\[envpool\]'$"):
        loaded("CartPole-v1")


def test_a_run_of_envpool_is_no_run_of_gymnasium():
    """The other simulators have the same numbers, and a resume may change them."""
    config = {key: {} for key in ("sampler", "model", "algo", "distribution")}
    config |= dict.fromkeys(("seed", "population", "batch_size", "layout", "precision"), 1)
    auto, direct, other = ({**config, "task": {"simulator": name}} for name in ("auto", "direct", "envpool"))
    refuse_other(direct, identity_of(auto))
    refuse_other(other, identity_of(other))
    with pytest.raises(UserError, match=r"^task\.simulator=envpool: the run's checkpoint has task\.simulator=auto"):
        refuse_other(other, identity_of(auto))
    with pytest.raises(UserError, match=r"^task\.simulator=auto: the run's checkpoint has task\.simulator=envpool"):
        refuse_other(direct, identity_of(other))


@pytest.mark.parametrize("identifier", ["LunarLander-v3", "Hopper-v5", "CartPole-v1", "BipedalWalker-v3"])
def test_a_return_of_the_package_depends_on_seed_and_policy_alone(identifier):
    """Alone, in pools of any size, in another order and beside other policies."""
    pytest.importorskip("envpool")
    returns: dict[int, set[float]] = {}
    for environments in (1, 3, 8):
        task = loaded(identifier, environments=environments, max_steps=60)
        for seeds in (SEEDS, SEEDS[:, 2:], SEEDS[:, ::-1].copy()):
            outcome = task.play(plan_of(seeds), policies_of(linear(task), seeds.size, task.spaces.shape), None)
            for seed, value in zip(seeds[0].tolist(), outcome.returns.tolist(), strict=True):
                returns.setdefault(seed, set()).add(value)
    assert [len(values) for values in returns.values()] == [1, 1, 1, 1]
    assert len(set.union(*returns.values())) > 1
