"""Linear layers and activations that wait until the module uses their outcome: the scores, and the bits, of layers one by one."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_small import evolution, scorers, share_passes
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core import postponed
from neuro_cli.core.kernels import activations, own_chain, tiles
from neuro_cli.sampler import dense

KEPT = []


@torch.jit.script
def scripted(x: Tensor) -> Tensor:
    """Function whose reads of a tensor torch announces to nobody."""
    return torch.relu(x) * 1.5


class Layers(nn.Module):
    """Two layers and a head; ``way`` is how the module goes from one to the other."""

    def __init__(self, way: str, mapped: bool = False) -> None:
        super().__init__()
        self.way, self.mapped = way, mapped
        self.first, self.second, self.head = nn.Linear(6, 20), nn.Linear(20, 6, bias=False), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.mapped:
            x = x @ torch.linalg.matrix_norm(self.head.weight).mul(0).add(torch.eye(6))  # no way but the map
        y = getattr(self, self.way)(x) + x
        return self.head(torch.tanh(y))

    def plain(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(x)))

    def dropped(self, x: Tensor) -> Tensor:
        return self.second(F.dropout(F.relu(self.first(x)), 0.5, training=False))

    def read_later(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        active = torch.tanh(hidden)
        y = self.second(active)
        return y + hidden.mean(-1, keepdim=True) * active.amax(-1, keepdim=True)

    def kept_alive(self, x: Tensor) -> Tensor:
        KEPT.append(self.first(x))
        return self.second(F.gelu(KEPT.pop(0)))

    def input_changes(self, x: Tensor) -> Tensor:
        x = x + 1
        hidden = self.first(x)
        x.mul_(0)
        return self.second(F.relu(hidden)) + x

    def two_activations(self, x: Tensor) -> Tensor:
        return self.second(F.relu(torch.tanh(self.first(x))))

    def other_activations(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(x), approximate="tanh"))

    def in_place(self, x: Tensor) -> Tensor:
        return self.second(F.relu(self.first(x), inplace=True))

    def shapes(self, x: Tensor) -> Tensor:
        hidden = F.gelu(self.first(x))
        return self.second(hidden) if hidden.shape[-1] == 20 and hidden.dim() > 1 else x


WAYS = [name for name in vars(Layers) if not name.startswith("_") and name != "forward"]


@pytest.fixture
def chains(monkeypatch) -> list[int]:
    """Layers of the chains that loops compute after they waited."""
    monkeypatch.setattr(dense, "ENOUGH", 0)
    monkeypatch.setattr(tiles, "FASTER", True)
    given = []

    def outcomes(links, *rest: object) -> None:
        given.append(len(links))
        own(links, *rest)

    own = postponed.outcomes
    monkeypatch.setattr(postponed, "outcomes", outcomes)
    return given


@pytest.mark.parametrize("examples", [12, 70])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_members_have_the_scores_of_single_ones(way, mapped, examples, chains):
    torch.manual_seed(0)
    share_passes(evolution(Layers(way, mapped), examples, sampler="antithetic"))
    assert (2 in chains) == (way in ("plain", "dropped", "kept_alive", "shapes"))


@pytest.mark.parametrize("way", ["plain", "read_later"])
def test_bits_do_not_depend_on_which_layers_are_computed_together(way, chains, monkeypatch):
    torch.manual_seed(0)
    es = evolution(Layers(way), 70)
    (scorer, _), proposal = scorers(es), es._algo.ask(2)
    made = []
    for alone in (False, True):
        if alone:
            monkeypatch.setattr(postponed._Step, "is_read", True)
        chains.clear()
        with torch.no_grad():
            made.append(scorer.scores(proposal, 2, range(16)))
    np.testing.assert_array_equal(*made)
    assert 2 not in chains


class Scripted(Layers):
    def plain(self, x: Tensor) -> Tensor:
        return self.second(scripted(self.first(x)))

    def inferred(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            y = self.second(torch.tanh(self.first(x)))
        return y.clone()


@pytest.mark.parametrize(("way", "mapped"), [("plain", False), ("plain", True), ("inferred", False)])
def test_layers_do_not_wait_for_reads_that_nobody_announces(way, mapped, chains):
    es = evolution(Scripted(way, mapped), 12, sampler="antithetic")
    share_passes(es)
    assert not scorers(es)[0]._leaves
    assert 2 not in chains


def test_perturbed_passes_are_tried_with_layers_that_wait(chains):
    """A trial has four examples; with so few rows a layer is else computed at once."""
    torch.manual_seed(0)
    module, x, members = Scripted("plain"), torch.randn(12, 6), []
    with torch.no_grad(), neuro.perturbed(module, "antithetic", 4, sigma=0.2, shared=True) as noise:
        made = module(x)
    centre = nn.utils.parameters_to_vector(module.parameters()).detach()
    for member in range(4):
        direction, sign = noise._sampler.side(member)
        nn.utils.vector_to_parameters(centre + sign * 0.2 * noise._sampler.explicit(0, direction), module.parameters())
        members.append(module(x).detach())
    torch.testing.assert_close(made, torch.cat(members), rtol=1e-5, atol=1e-5)


def test_other_processors_compute_layers_at_once(chains, monkeypatch):
    monkeypatch.setattr(tiles, "FASTER", False)
    share_passes(evolution(Layers("plain"), 70))
    assert not chains


def test_gelu_is_that_of_its_definition():
    small = np.geomspace(1e-38, 1, 5_000)
    x = np.concatenate([np.linspace(-12, 12, 200_001), small, -small, [1e30, -1e30]]).astype(np.float32)
    out = np.empty_like(x)
    own_chain.activated(x, activations.GELU, out)
    wanted = np.array([value * 0.5 * math.erfc(-value / math.sqrt(2)) for value in x.astype(np.float64)])
    assert (np.abs(out - wanted) <= 3e-7 * np.minimum(np.abs(x), 6.0) + 4e-7 * np.abs(wanted)).all()
    own_chain.activated(np.full(3, np.nan, np.float32), activations.GELU, out[:3])
    assert np.isnan(out[:3]).all()
