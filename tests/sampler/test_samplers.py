"""Every sampler of conf/sampler against the definition of its contract, on a module with all kinds of parameters."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from support.configs import SAMPLERS, composed
from torch import nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.factory.instantiate import make
from neuro_cli.sampler.base import Sampler

POPULATION, GENERATION = 12, 4
VARIANTS = [
    *((name, ()) for name in SAMPLERS),
    *((name, ("sampler.antithetic=false",)) for name in SAMPLERS if name not in ("iid", "antithetic")),
    ("sign_flip", ("sampler.sides=outputs",)),
    ("sign_flip", ("sampler.sides=inputs",)),
    ("sign_flip", ("sampler.directions_per_noise=2",)),
    *(("permutation", (f"sampler.sides={sides}",)) for sides in ("outputs", "inputs", "both")),
    *(("permutation", (f"sampler.sparsity={share}",)) for share in (0.5, 0.1, 0.0625)),
    ("permutation", ("sampler.sides=both", "sampler.sparsity=0.5", "sampler.directions_per_noise=3")),
    ("permutation", ("sampler.sides=inputs", "sampler.sparsity=0.5")),
    ("low_rank", ("sampler.rank=3",)),
]


def module() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 40, 3),
        nn.BatchNorm2d(40),
        nn.Conv2d(40, 40, 3, groups=40, bias=False),
        nn.Conv2d(40, 20, 1, groups=4),
        nn.Flatten(),
        nn.Linear(20, 140),
        nn.LayerNorm([140]),
        nn.Linear(140, 7),
    )


def bound(
    name: str, *overrides: str, population: int = POPULATION, threads: int = 1, channels_last: bool = True, layers: int = 8
) -> Sampler:
    """The sampler, bound to the first ``layers`` of the module."""
    made: Sampler = make(composed(f"sampler={name}", *overrides), "sampler", Sampler)
    layout = ParameterLayout(module()[:layers], channels_last)
    made.bind(Noise(5, layout.size, torch.device("cpu"), Threads(threads)), population, layout)
    return made


@pytest.fixture(params=VARIANTS, ids=lambda v: "-".join([v[0], *(text.removeprefix("sampler.") for text in v[1])]))
def variant(request) -> tuple[str, tuple[str, ...]]:
    return request.param


@pytest.fixture
def sampler(variant) -> Sampler:
    """The memory format is another from one variant to the next."""
    return bound(variant[0], *variant[1], channels_last=VARIANTS.index(variant) % 2 == 0)


def perturbation(sampler: Sampler, member: int) -> torch.Tensor:
    """eps of a member, through the sampler's own perturb at centre 0 and scale 1."""
    direction, sign = sampler.side(member)
    out = torch.empty(sampler.layout.size)
    sides = (out, None) if sign == 1 else (None, out)
    sampler.perturb(torch.zeros_like(out), torch.ones(1), GENERATION, direction, *sides)
    return out


def all_of(sampler: Sampler) -> torch.Tensor:
    return torch.stack([perturbation(sampler, member) for member in range(POPULATION)])


def test_perturb_writes_centre_plus_and_minus_the_scaled_definition(sampler):
    size, generator = sampler.layout.size, torch.Generator().manual_seed(1)
    base, scales = torch.randn(size, generator=generator), (torch.tensor([0.3]), torch.rand(size, generator=generator))
    for direction in range(sampler.directions):
        scale, plus, minus = scales[direction % 2], torch.empty(size), torch.empty(size)
        sampler.perturb(base, scale, GENERATION, direction, plus, minus)
        step = scale.double() * sampler.explicit(GENERATION, direction, torch.float64)
        torch.testing.assert_close(plus.double(), base + step, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(minus.double(), base - step, rtol=1e-5, atol=1e-5)


def test_members_differ_from_each_other_and_over_generations(sampler):
    eps = all_of(sampler)
    assert (torch.cdist(eps, eps) + 1e9 * torch.eye(POPULATION)).min() > 10
    assert not torch.equal(sampler.explicit(GENERATION, 0), sampler.explicit(GENERATION + 1, 0))


def test_combine_is_the_explicit_sum_of_both_moments(sampler):
    noise = all_of(sampler).double().numpy()
    for members, (start, stop) in product((range(POPULATION), range(3, 8)), ((0, noise.shape[1]), (1000, 1100), (1, 2999))):
        weights = np.random.default_rng(1).standard_normal((2, len(members)))
        eps = noise[list(members), start:stop]
        expected = np.stack([weights[0] @ eps, weights[1] @ (eps**2 - 1)])
        sums = sampler.combine(weights, (1, 2), GENERATION, members, start, stop)
        size = np.stack([np.abs(weights[0]) @ np.abs(eps), np.abs(weights[1]) @ (eps**2 + 1)])
        assert (np.abs(sums.numpy() - expected) <= 1e-5 * size + 1e-6).all(), (members, start, stop)


def test_slices_tile_the_whole_bit_for_bit_on_any_number_of_threads(variant):
    sampler, pair = bound(variant[0], *variant[1]), bound(variant[0], *variant[1], threads=2)
    weights = np.random.default_rng(1).standard_normal((2, POPULATION))
    size = sampler.layout.size
    whole = sampler.combine(weights, (1, 2), GENERATION, range(POPULATION), 0, size)
    cuts = [0, 1, 777, 2048, 3000, size]
    parts = [pair.combine(weights, (1, 2), GENERATION, range(POPULATION), a, b) for a, b in pairwise(cuts)]
    assert torch.equal(torch.cat(parts, dim=1), whole)


def test_weights_have_mean_0_variance_1_and_no_correlation(variant):
    """Over generations, the covariance of 16 weights spread over the module is the identity within 6 standard errors."""
    sampler = bound(variant[0], *variant[1], layers=4)  # they have the places that are pinned
    count = 200
    places = np.concatenate([np.arange(p.start, p.stop)[:: max(1, (p.stop - p.start) // 3)][:3] for p in sampler.layout.places])
    pinned = places[:16]
    draws = np.stack([sampler.explicit(generation, generation % 6).numpy()[pinned] for generation in range(count)]).astype(float)
    fourth = np.maximum((draws**4).mean(0), 3.0)  # heavier tails than a normal's where the noise is sparse or of low rank
    assert (np.abs(draws.mean(0)) < 6 * np.sqrt((draws**2).mean(0) / count)).all()
    assert (np.abs((draws**2).mean(0) - 1) < 6 * np.sqrt(fourth / count)).all()
    products = draws.T @ draws / count - np.diag((draws**2).mean(0))
    spread = np.sqrt(((draws**2).T @ (draws**2) / count) / count)
    assert (np.abs(products) < 6 * np.maximum(spread, 1 / np.sqrt(count))).all()


def test_pairs_are_mirror_images_of_one_direction(sampler):
    if not sampler.antithetic:
        assert sampler.directions == POPULATION
        return
    for pair in range(POPULATION // 2):
        assert torch.equal(perturbation(sampler, 2 * pair), -perturbation(sampler, 2 * pair + 1))
        assert sampler.side(2 * pair) == (pair, 1)
        assert sampler.side(2 * pair + 1) == (pair, -1)
    assert sampler.directions == POPULATION // 2


def test_pairs_refuse_an_odd_population():
    made: Sampler = make(composed("sampler=antithetic"), "sampler", Sampler)
    with pytest.raises(ConfigError, match="population=7: antithetic pairs need an even population"):
        made.check(7)
