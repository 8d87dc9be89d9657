"""Parallel environments with one policy: the plain loop's returns, agents that end or enter, memory, ranks, errors."""

import numpy as np
import pytest
import torch
from support.inside import neuro_inside, well
from support.made_data import load
from torch import nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.reinforcement.pettingzoo import PettingZoo
from neuro_cli.task.reinforcement.policies import policies_of
from neuro_cli.task.reinforcement.task import plan_of

pytest.importorskip("gymnasium")
import stub_parallel

SEEDS = [3, 4, 5, 6, 7]
REAL = {"mpe2.simple_spread_v3": {"max_cycles": 6}, "pettingzoo.sisl.multiwalker_v9": {"max_cycles": 20, "n_walkers": 2}}


def loaded(id: str = "stub_parallel", **settings) -> PettingZoo:
    return load(PettingZoo(**{"id": id, "normalise": False, "environments": 2} | settings))


class Counting(nn.Module):
    """A policy with a memory: its k-th answer in an episode is 1 for an even k."""

    def reset(self, count):
        return torch.zeros(count, 1)

    def forward(self, observations, states):
        even = (states % 2 == 0).float()
        return torch.cat([1 - even, even], 1), states + 1


def policy_for(task: PettingZoo) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(task.spaces.inputs, task.spaces.outputs))


def played(task: PettingZoo, policy: nn.Module):
    return task.play(plan_of(np.array([SEEDS])), policies_of(policy, len(SEEDS) * task.seats, task.spaces.shape), task.normaliser)


def plain(task: PettingZoo, policy: nn.Module, seed: int) -> tuple[float, int]:
    """Mean return and steps of all agents in a loop of one's own."""
    environment = task.maker.make().environment
    seen, total, steps = environment.reset(seed=seed)[0], dict.fromkeys(environment.possible_agents, 0.0), 0
    while environment.agents:
        actions = {}
        for agent in environment.agents:
            with torch.no_grad():
                outputs = policy(torch.from_numpy(np.asarray(seen[agent], np.float32))[None])[0].numpy()
            space = environment.action_space(agent)
            actions[agent] = int(outputs.argmax()) if task.spaces.actions else outputs.clip(space.low, space.high)
            steps += 1
        seen, rewards, *_ = environment.step(actions)
        for agent, reward in rewards.items():
            total[agent] += reward
    environment.close()
    return sum(total.values()) / len(total), steps


@pytest.mark.parametrize("id", ["stub_parallel", *REAL])
def test_returns_and_steps_are_those_of_a_plain_loop(id):
    pytest.importorskip(id)
    task = loaded(id, options=REAL.get(id, {}))
    policy = policy_for(task)
    outcome = played(task, policy)
    for place, seed in enumerate(SEEDS):
        wanted, steps = plain(task, policy, seed)
        assert outcome.steps[place] == steps
        np.testing.assert_allclose(
            outcome.returns[place], wanted, rtol=1e-4
        )  # rounding in other orders, and Box2D makes it larger


@pytest.mark.parametrize("options", [{}, {"late": True}])
def test_each_agent_has_its_memory_and_its_end(options):
    outcome = played(loaded(options=options), Counting())
    # a lives 2 steps, b 5, c 3: an even step pays its agent's life; a that enters late acts in the second step alone
    first = 1 * 2
    assert outcome.returns.tolist() == [(first + 3 * 5 + 2 * 3) / 3] * len(SEEDS)
    assert outcome.steps.tolist() == [(1 if options else 2) + 5 + 3] * len(SEEDS)


def test_an_episode_is_a_function_of_seed_and_policy():
    results = [
        played(loaded(normalise=True, environments=count, anew=anew), Counting()) for count, anew in ((1, False), (8, True))
    ]
    one, other = (result.sums for result in results)
    assert np.array_equal(one, other)
    assert one.any()


def test_a_limit_of_steps_ends_all_agents():
    assert played(loaded(max_steps=1), Counting()).steps.tolist() == [3] * len(SEEDS)


def test_a_run_learns_and_resumes_alike_on_any_number_of_environments(tmp_path):
    line = (
        "task=pettingzoo", "task.id=stub_parallel", "population=8", "model.hidden=[]", "task.evaluation_episodes=4", "threads=1",
        "checkpoint.every=3",
    )  # fmt: skip
    sums = []
    for name, count in (("one", 1), ("many", 16)):
        well(neuro_inside("train", *line, "generations=6", f"task.environments={count}", f"hydra.run.dir={name}", cwd=tmp_path))
        sums.append((tmp_path / name / "metrics.csv").read_text().splitlines()[-1].split(",")[:5])
    assert sums[0] == sums[1]
    first = float((tmp_path / "one" / "metrics.csv").read_text().splitlines()[1].split(",")[1])
    assert float(sums[0][1]) > first


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"options": {"unequal": True}}, "their spaces must be equal: c has others than a"),
        ({"id": "mpe3.simple"}, "mpe3 is not installed: pip install"),
        ({"id": "math"}, "must name a module with a function parallel_env"),
        ({"options": {"lives": 3}}, "cannot be made: TypeError"),
    ],
)
def test_bad_input_is_one_line(settings, text):
    with pytest.raises(ConfigError) as error:
        loaded(**settings)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_a_number_that_is_not_finite_has_no_return(monkeypatch):
    monkeypatch.setattr(stub_parallel.Parallel, "seen", lambda self: {agent: np.full(3, np.nan) for agent in self.agents})
    task = loaded(anew=False)
    outcome = played(task, policy_for(task))
    assert np.isnan(outcome.returns).all()
    assert "observation 0 of a is nan in the episode with seed 3" in outcome.faults[0]
