"""Sums as a GPU makes them, with few launches, here by torch operations on a CPU."""

import numpy as np
import pytest
import torch
from support.configs import composed
from torch import nn

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.factory.instantiate import make
from neuro_cli.sampler import block_sums
from neuro_cli.sampler.block_sums import BlockSums

SETTINGS = [
    ("sampler=sign_flip",),
    ("sampler=sign_flip", "sampler.sides=inputs", "sampler.directions_per_noise=8"),
    ("sampler=permutation",),
    ("sampler=permutation", "sampler.sides=both", "sampler.sparsity=0.5"),
    ("sampler=permutation", "sampler.sides=inputs"),
    ("sampler=low_rank", "sampler.rank=2"),
]


# zeros: directions that weigh nothing
@pytest.mark.parametrize(("overrides", "zeros"), [(setting, (0, 5, 25)[place % 3]) for place, setting in enumerate(SETTINGS)])
def test_sums_of_a_device_are_those_of_the_hooks_whatever_the_slice(monkeypatch, overrides, zeros):
    monkeypatch.setattr(block_sums, "DEVICE_PIECE", 256)  # several pieces of a layer
    monkeypatch.setattr(block_sums, "FACTORS", 0)
    monkeypatch.setattr(block_sums, "FEW", 20)  # several lists of directions
    layout = ParameterLayout(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(32, 600)))
    sampler = make(composed(*overrides), "sampler", BlockSums)
    sampler.antithetic = False
    sampler.bind(Noise(7, layout.size, torch.device("cpu"), Threads(1)), 32, layout)
    weights = np.random.default_rng(1).standard_normal((2, 32))
    weights[:, :zeros] = 0.0
    where = (weights, (1, 2), 3, range(32))
    whole = sampler._sums_on_device(*where, 0, layout.size)
    torch.testing.assert_close(whole, sampler.sums(*where, 0, layout.size), rtol=1e-4, atol=1e-4)
    for start, stop in ((0, 100), (100, 9000), (9001, layout.size)):
        assert torch.equal(sampler._sums_on_device(*where, start, stop), whole[:, start:stop])


def test_sums_without_any_weight_are_zeros():
    layout = ParameterLayout(nn.Linear(4, 3))
    sampler = make(composed("sampler=low_rank"), "sampler", BlockSums)
    sampler.bind(Noise(7, layout.size, torch.device("cpu"), Threads(1)), 8, layout)
    assert torch.equal(sampler._sums_on_device(np.zeros((1, 4)), (1,), 0, range(4), 0, layout.size), torch.zeros(1, layout.size))
