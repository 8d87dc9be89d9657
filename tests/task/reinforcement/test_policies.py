"""Compiled policies against the modules they stand for, and that a row's bits are its own."""

import numpy as np
import pytest
import torch
from torch import nn

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.module.gain import Gain
from neuro_cli.model.mlp_policy import MLPPolicy
from neuro_cli.task.reinforcement import policy_kernels as kernels
from neuro_cli.task.reinforcement.policies import ChainPolicies, ModulePolicies, chain_of


def members(module: nn.Module, count: int) -> tuple[ParameterLayout, np.ndarray]:
    layout = ParameterLayout(module)
    noise = torch.randn(count, layout.size, generator=torch.Generator().manual_seed(0))
    return layout, (layout.flatten(module) + 0.3 * noise).numpy()


@pytest.mark.parametrize(
    "module",
    [
        MLPPolicy(8, 4),
        MLPPolicy(5, 3, [7, 11], "relu"),
        MLPPolicy(6, 2, [9], "sigmoid"),
        MLPPolicy(4, 2, []),
        MLPPolicy(4, 3, [], gain=True),
        MLPPolicy(5, 2, [7], gain=True),
        nn.Sequential(nn.Linear(3, 5, bias=False), nn.Tanh(), nn.Linear(5, 2), nn.Tanh()),
    ],
)
def test_compiled_policies_answer_as_their_modules(module):
    layout, flats = members(module, 3)
    chain = chain_of(module, layout)
    assert chain is not None
    seen = 2 * torch.randn(20, chain.inputs, generator=torch.Generator().manual_seed(1))
    which = np.arange(20) % 3
    made = ChainPolicies(chain, flats).act(seen.numpy(), which, np.zeros(20, np.int64))
    for member in range(3):
        layout.load(module, torch.from_numpy(flats[member]))
        wanted = module(seen[which == member]).detach().numpy()
        np.testing.assert_allclose(made[which == member], wanted, rtol=2e-5, atol=2e-6)


def test_tanh_is_accurate_to_a_few_units_of_the_last_place():
    x = np.linspace(-12, 12, 200_001).astype(np.float32)
    made = x.copy()
    kernels._tanh(made)
    wanted = np.tanh(x.astype(np.float64))
    assert (np.abs(made - wanted) <= 8 * np.spacing(np.abs(wanted).astype(np.float32))).all()
    assert np.isnan(made_of(np.nan))
    assert made_of(np.inf) == 1


def made_of(value: float) -> float:
    values = np.array([value], np.float32)
    kernels._tanh(values)
    return float(values[0])


class Own(nn.Module):
    """No chain: what it does only its ``forward`` knows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 33)
        self.outer = nn.Linear(33, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.sin(self.inner(x)))


class Doubled(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    "module",
    [
        Own(),
        Doubled(nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(4, 2), nn.GELU()),
        nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 3), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(4, 4), Gain(), nn.Linear(4, 2)),
    ],
)
def test_other_modules_are_no_chains(module):
    assert chain_of(module, ParameterLayout(module)) is None


@pytest.mark.parametrize("kind", ["compiled", "module"])
def test_a_row_has_the_same_bits_whatever_runs_beside_it(kind):
    episodes, count = 3, 5
    random = np.random.default_rng(0)
    if kind == "compiled":
        module: nn.Module = MLPPolicy(4, 2, [33, 17])
        layout, flats = members(module, count)
        policies = ChainPolicies(chain_of(module, layout), flats)
    else:
        policies = ModulePolicies([Own() for _ in range(count)], episodes, (4,))
    seen = random.standard_normal((count, episodes, 4)).astype(np.float32)
    which, places = np.repeat(np.arange(count), episodes), np.tile(np.arange(episodes), count)
    rows = seen.reshape(-1, 4)
    whole = policies.act(rows, which, places).copy()
    for some in ([7], [14, 0], [3, 4, 5, 9], list(range(14, -1, -1))):
        assert np.array_equal(policies.act(rows[some], which[some], places[some]), whole[some])
