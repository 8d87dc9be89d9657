"""Which convolutions of single members take fewer products: by shapes alone, tried first, the same bits on any threads."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import neuro_cli as neuro
from neuro_cli.core.kernels import winograd
from neuro_cli.core.rows import Geometry
from neuro_cli.scoring import convolutions

pytestmark = pytest.mark.skipif(not winograd.AVAILABLE, reason="neither AVX2 nor AVX-512 here")


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding="same"), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten(),
        nn.LazyLinear(4),
    )  # fmt: skip


def fitness(module, inputs, targets):
    return -F.cross_entropy(module(inputs), targets, reduction="none")


def trained(monkeypatch, enough: float, **options) -> tuple[torch.Tensor, list[float]]:
    """Return the parameters after two generations, and their mean fitness."""
    monkeypatch.setattr(convolutions, "ENOUGH", enough)
    module = network()
    inputs, targets = torch.randn(40, 3, 20, 20, generator=torch.Generator().manual_seed(2)), torch.arange(40) % 4
    module(inputs)
    evolution = neuro.Evolution(module, population=8, **options)
    seen = [evolution.step(fitness, inputs, targets) for _ in range(2)]
    return evolution.centre, [report.fitness_mean for report in seen]


def test_members_have_the_scores_of_torchs_convolutions(monkeypatch, caplog):
    caplog.set_level("INFO")
    plain = trained(monkeypatch, enough=1e30)
    assert "fewer products" not in caplog.text
    fewer = trained(monkeypatch, enough=0)
    assert "convolutions with fewer products" in caplog.text
    np.testing.assert_allclose(fewer[1], plain[1], rtol=1e-4)


def test_the_bits_are_those_of_any_number_of_threads(monkeypatch):
    one, two = (trained(monkeypatch, enough=0, threads=threads) for threads in (1, 2))
    assert torch.equal(one[0], two[0])


@pytest.mark.parametrize(
    ("size", "shape", "groups", "taken"),
    [
        ((32, 32), (32, 32, 3, 3), 1, True),
        ((14, 14), (64, 32, 5, 5), 1, True),
        ((256,), (128, 128, 5), 1, True),
        ((32, 32), (128, 32, 3, 3), 4, True),
        ((32, 32), (32, 3, 3, 3), 1, False),  # to spread and gather takes what products save
        ((32, 32), (32, 1, 3, 3), 32, False),  # depthwise
        ((1, 1), (64, 64, 3, 3), 1, False),
    ],
)
def test_the_way_follows_from_shapes(size, shape, groups, taken):
    taps = shape[2:]
    padding = tuple(count // 2 for count in taps)
    geometry = Geometry(padding=(0, *padding) if len(taps) == 1 else padding, groups=groups)
    assert convolutions.Layer(torch.Size(size), torch.Size(shape), geometry, 64).pays == taken


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 4, 3, stride=2), nn.Conv2d(4, 4, 3, dilation=2), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 9),
        nn.Conv2d(4, 4, 3, padding_mode="circular", padding=1), nn.Conv2d(4, 4, 2, padding="same"), nn.ConvTranspose2d(4, 4, 3),
    ],
)  # fmt: skip
def test_other_layers_stay(layer):
    kind = type(layer)
    convolutions.put_convolutions(layer, 64)
    assert type(layer) is kind


def test_gradients_and_maps_take_torchs_way():
    layer = nn.Conv2d(32, 32, 3, padding=1)
    x = torch.randn(2, 32, 32, 32)
    wanted = layer(x)
    convolutions.put_convolutions(layer, 64)
    made = layer(x)
    assert made.requires_grad
    assert torch.equal(made, wanted)
    with torch.no_grad():
        mapped = torch.vmap(layer)(x[:, None])
    torch.testing.assert_close(mapped[:, 0], wanted.detach(), rtol=1e-4, atol=1e-4)


class Unpacked(nn.Module):
    """Lines (B, C, L), whose sizes the module reads."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Conv1d(3, 2, 3)

    def forward(self, x):
        _, _, length = x.shape
        return self.inner(x).mean(2) / length


def test_a_module_of_a_closure_is_asked_for_nothing_but_what_the_closure_gives():
    """Nobody knows a closure's inputs before it runs, so a trial has others, which a module may refuse in its own way."""
    x = torch.randn(4, 3, 9)
    report = neuro.Evolution(Unpacked(), population=8, threads=1).step(lambda member: member(x).sum())
    assert np.isfinite(report.fitness_mean)
