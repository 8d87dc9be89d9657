"""Policies with a memory: carried through each episode by itself, against loops that play one episode after the other."""

import re

import numpy as np
import pytest
import torch
from support.inside import neuro_inside, well
from support.made_data import load
from torch import Tensor, nn

import neuro_cli
from neuro_cli.core.errors import UserError
from neuro_cli.model.gru_policy import GRUPolicy
from neuro_cli.task.reinforcement import Reinforcement
from neuro_cli.task.reinforcement.policies import ModulePolicies, answer, policies_of, starting_states
from neuro_cli.task.reinforcement.task import plan_of

gymnasium = pytest.importorskip("gymnasium")
SEEDS = [3, 14, 15, 92, 65, 35, 89]


class Rhythm(nn.Module):
    """Pushes ``period`` times to one side, then to the other: nothing but its memory decides."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period

    def reset(self, count: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(count, dtype=torch.int64), torch.ones(count, 2)

    def forward(self, observations: Tensor, states: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        steps, unused = states
        side = steps // self.period % 2
        return torch.stack([1.0 - side, 1.0 * side], 1), (steps + 1, unused + 1)


def cart_pole(together: int) -> Reinforcement:
    return load(Reinforcement(id="CartPole-v1", normalise=False, environments=together))


def lengths_by_a_loop(module: nn.Module) -> list[int]:
    """Steps of each episode, alone, with a memory of one row."""
    environment, lengths = gymnasium.make("CartPole-v1"), []
    for seed in SEEDS:
        (observation, _), states, over, length = environment.reset(seed=seed), module.reset(1), False, 0
        while not over:
            with torch.no_grad():
                outputs, states = module(torch.from_numpy(observation)[None], states)
            observation, _, terminated, truncated, _ = environment.step(int(outputs[0].argmax()))
            over, length = terminated or truncated, length + 1
        lengths.append(length)
    return lengths


def gru(seed: int) -> GRUPolicy:
    torch.manual_seed(seed)
    module = GRUPolicy(4, 2, hidden=6)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3)
    return module


@pytest.mark.parametrize("together", [1, 3, 16])
def test_members_side_by_side_play_as_alone(together):
    """More episodes than environments, which end at different times."""
    modules: list[nn.Module] = [Rhythm(2), Rhythm(5), gru(1), gru(2)]
    expected = [lengths_by_a_loop(module) for module in modules]
    assert len({tuple(row) for row in expected}) == 4
    policies = ModulePolicies(modules, len(SEEDS), (4,))
    outcome = cart_pole(together).play(plan_of(np.array([SEEDS] * 4)), policies, None)
    assert outcome.steps.reshape(4, -1).tolist() == expected


def test_a_memory_ends_with_its_play():
    task, module = cart_pole(2), gru(1)
    runs = [task.play(plan_of(np.array([SEEDS])), policies_of(module, len(SEEDS), (4,)), None).returns for _ in range(2)]
    assert runs[0].tolist() == runs[1].tolist() == lengths_by_a_loop(module)


def test_an_episode_that_waits_keeps_its_memory():
    module = gru(3)
    policies = ModulePolicies([module], 3, (4,))
    seen = torch.randn(4, 3, 4, generator=torch.Generator().manual_seed(0))
    states = module.reset(1)
    for step in range(4):
        some = [1] if step % 2 else [2, 1]
        made = policies.act(seen[step, some].numpy(), np.zeros(len(some), np.int64), np.array(some))
        with torch.no_grad():
            outputs, states = module(seen[step, 1:2], states)
        np.testing.assert_allclose(made[some.index(1)], outputs[0].numpy(), rtol=1e-5, atol=1e-6)


class Wrong(Rhythm):
    def __init__(self, what: str) -> None:
        super().__init__(1)
        self.what = what

    def reset(self, count):
        if self.what == "nothing":
            raise TypeError
        return torch.zeros(count + 1) if self.what == "rows" else super().reset(count)

    def forward(self, observations, states):
        outputs, following = super().forward(observations, states)
        return outputs if self.what == "no states" else (outputs, following[0])


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("rows", "model: reset(1) must give a tensor, or a tuple of them, with 1 rows"),
        ("nothing", "model: reset(1) must give the states of episodes that begin: "),
        ("no states", "model: a policy with reset() gives its outputs and its next states, shaped as reset() gave them"),
        ("one state", "model: a policy with reset() gives its outputs and its next states, shaped as reset() gave them"),
    ],
)
def test_what_is_no_memory_is_refused(what, line):
    with pytest.raises(UserError, match=f"^{re.escape(line)}$"):
        cart_pole(1).misfit(Wrong(what))


def test_a_run_trains_evaluates_and_loads_one(tmp_path):
    well(neuro_inside(
        "train", "task=lunar_lander", "task.id=CartPole-v1", "model=gru_policy", "model.hidden=4", "population=4",
        "generations=2", "threads=1", "task.max_steps=20", "task.evaluation_episodes=3",
        "evaluate.every=2", "hydra.run.dir=run", cwd=tmp_path,
    ))  # fmt: skip
    policy = neuro_cli.load(tmp_path / "run")  # on normalised observations
    with torch.no_grad():
        outputs, states = answer(policy, torch.zeros(5, 4), starting_states(policy, 5))
    assert outputs.shape == (5, 2)
    assert states.shape == (5, 4)
    well(neuro_inside("evaluate", "run", cwd=tmp_path))
