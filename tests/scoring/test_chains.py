"""Chains of linear layers in a Sequential: members of dense noise by one compiled loop, else layer by layer."""

import copy
import math
from types import MethodType

import numpy as np
import pytest
import torch
from test_small import evolution, negative_squares, scorers, share_passes
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from neuro_cli.core.chain import Chain
from neuro_cli.core.kernels import activations
from neuro_cli.core.kernels import own_chain as kernels
from neuro_cli.sampler import dense


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 5, bias=False), nn.ReLU())
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)) * x.mean(-1, keepdim=True)


class Reversed(nn.Sequential):
    def __iter__(self):
        return reversed(list(super().__iter__()))


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4), nn.ReLU(inplace=True), nn.Linear(4, 3))


def with_other_parts() -> nn.Sequential:
    parts = (
        nn.Flatten(),
        nn.Linear(6, 9),
        nn.LayerNorm(9),
        nn.Tanh(),
        nn.Linear(9, 4),
        nn.GELU(),
        nn.Linear(4, 3),
        nn.Tanh(),
        nn.Tanh(),
    )
    return nn.Sequential(*parts)


def partly_frozen() -> nn.Sequential:
    module = plain()
    module[2].bias.requires_grad_(False)
    return module


def tied() -> nn.Sequential:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.ReLU(), nn.Linear(6, 3))


def hooked() -> nn.Sequential:
    module = plain()
    module[1].register_forward_hook(lambda _, __, made: 2 * made)
    return module


def with_its_own_call() -> nn.Sequential:
    module = plain()
    module[0].forward = MethodType(lambda self, x: 3 * nn.functional.linear(x, self.weight), module[0])
    return module


def parametrised() -> nn.Sequential:
    module = plain()
    nn.utils.parametrizations.weight_norm(module[2])
    return module


MODULES = {  # and the layers in chains
    "plain": (plain, [3]), "nested": (Nested, [2]), "other parts": (with_other_parts, [1, 2]),
    "frozen": (partly_frozen, [1, 1]), "tied": (tied, [3]), "hooked": (hooked, [1, 2]),
    "own call": (with_its_own_call, [2]), "parametrised": (parametrised, []),
    "reversed": (lambda: Reversed(nn.Linear(9, 3), nn.Tanh(), nn.Linear(6, 9)), []),
    "large": (lambda: nn.Sequential(nn.Linear(6, 3000), nn.Tanh(), nn.Linear(3000, 6), nn.Linear(6, 3)), [1]),
}  # fmt: skip


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """Layers of the chains that loops compute; compiled loops serve small populations."""
    monkeypatch.setattr(dense, "ENOUGH", 0)
    given = []

    def answers(self: Chain, *rest: object) -> Tensor:
        given.append(len(self.links))
        return own(self, *rest)

    own = Chain.answers
    monkeypatch.setattr(Chain, "answers", answers)
    return given


@pytest.mark.parametrize("kind", MODULES)
def test_members_of_chains_have_the_scores_of_single_ones(kind, calls):
    build, links = MODULES[kind]
    torch.manual_seed(0)
    share_passes(evolution(build(), 12, sampler="antithetic"))
    assert calls[-len(links) :] == links if links else not calls


@pytest.mark.parametrize(("examples", "served"), [(7, False), (8, True), (17, True), (64, True), (65, False)])
def test_a_blas_serves_members_of_few_and_of_many_rows(examples, served, calls):
    share_passes(evolution(plain(), examples, sampler="iid"))
    assert bool(calls) == served


@pytest.mark.parametrize("sampler", ["low_rank", "sign_flip"])
def test_noise_that_is_reused_goes_layer_by_layer(sampler, calls):
    share_passes(evolution(plain(), 12, sampler=sampler))
    assert not calls


def test_a_hook_on_all_modules_sees_every_layer(calls):
    seen = set()
    es = evolution(plain(), 12)
    assert calls
    handle = register_module_forward_hook(lambda part, _, __: seen.add(type(part)))
    try:
        calls.clear()
        es.step(negative_squares, *es.data)
    finally:
        handle.remove()
    assert not calls
    assert seen >= {nn.Linear, nn.Tanh, nn.ReLU}


def test_bits_depend_neither_on_threads_nor_on_a_generation_that_is_followed(calls):
    torch.manual_seed(0)
    module, centres = plain(), []
    for threads in (1, 2):
        es = evolution(copy.deepcopy(module), 12, population=512, threads=threads)
        es.step(negative_squares, *es.data)
        centres.append(es.centre)
    assert torch.equal(*centres)
    (scorer, _), proposal = scorers(es), es._algo.ask(2)
    made = []
    for scorer._careful in (True, False):
        scorer._generations = 17  # from which on tensors are followed in some generations only
        with torch.no_grad():
            made.append(scorer.scores(proposal, 2, range(512)))
    np.testing.assert_array_equal(*made)
    assert calls


def test_a_tangent_within_a_chain_is_exact_to_five_units_of_the_last_place():
    x = np.concatenate([np.linspace(-12, 12, 200_001), np.geomspace(1e-38, 1, 50_000), [math.inf, -math.inf, math.nan, -0.0]])
    x = np.resize(x.astype(np.float32), (1, 1, len(x) // 64, 64))
    out, layer = np.empty_like(x), np.array([[64, 64, 0, -1, 0, -1, activations.TANH]])
    noise = np.zeros((1, 64 * 64), np.float32)
    x[0, 0, -1, :3] = math.inf, -math.inf, math.nan
    finite = np.isfinite(x).all(-1)
    kernels.own_chain(x, np.eye(64, dtype=np.float32).ravel(), noise, layer, np.ones(1, np.float32), out)
    wanted = np.tanh(x.astype(np.float64))
    apart = np.abs(out - wanted)[finite] / np.spacing(np.abs(wanted[finite]).astype(np.float32))
    assert apart.max() <= 5
    assert np.isnan(out[0, 0, -1]).all()  # an infinite number meets zeros among the weights
