"""Every sampler of conf/sampler against the definition of its contract."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from configs import composed

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.noise import Noise
from neuro_cli.core.threads import Threads
from neuro_cli.overrides import groups
from neuro_cli.runner.build import make
from neuro_cli.sampler.base import Sampler

COLUMNS, POPULATION, GENERATION = 3000, 12, 4


@pytest.fixture(params=groups()["sampler"])
def sampler(request) -> Sampler:
    made: Sampler = make(composed(f"sampler={request.param}"), "sampler", Sampler)
    made.bind(Noise(5, COLUMNS, torch.device("cpu"), Threads(1)), POPULATION)
    return made


def perturbation(sampler: Sampler, member: int) -> torch.Tensor:
    """eps of a member, through the sampler's own perturb at centre 0 and scale 1."""
    direction, sign = sampler.side(member)
    out = torch.empty(COLUMNS)
    sides = (out, None) if sign == 1 else (None, out)
    sampler.perturb(torch.zeros(COLUMNS), torch.ones(1), GENERATION, direction, *sides)
    return out


def test_members_differ(sampler):
    eps = torch.stack([perturbation(sampler, member) for member in range(POPULATION)])
    assert (torch.cdist(eps, eps) + 1e9 * torch.eye(POPULATION)).min() > 10


def test_units_cover_every_member_once_on_its_side(sampler):
    for members in (range(POPULATION), range(3, 8), range(5, 6)):
        seen = []
        for unit in sampler.units(members):
            for member, sign in ((unit.plus, 1), (unit.minus, -1)):
                if member is not None:
                    assert sampler.side(member) == (unit.direction, sign)
                    seen.append(member)
        assert sorted(seen) == list(members)


@pytest.mark.parametrize("members", [range(POPULATION), range(3, 8)])
@pytest.mark.parametrize("columns", [(0, COLUMNS), (1000, 1100)])
def test_combine_is_the_explicit_sum_of_both_moments(sampler, members, columns):
    weights = np.random.default_rng(1).standard_normal((2, len(members)))
    start, stop = columns
    eps = torch.stack([perturbation(sampler, member) for member in members]).double().numpy()[:, start:stop]
    expected = np.stack([weights[0] @ eps, weights[1] @ (eps**2 - 1)])
    sums = sampler.combine(weights, (1, 2), GENERATION, members, start, stop)
    np.testing.assert_allclose(sums.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_slices_tile_the_whole_bit_for_bit(sampler):
    weights = np.random.default_rng(1).standard_normal((1, POPULATION))
    whole = sampler.combine(weights, (1,), GENERATION, range(POPULATION), 0, COLUMNS)
    cuts = [0, 1, 777, 2048, COLUMNS]
    parts = [sampler.combine(weights, (1,), GENERATION, range(POPULATION), a, b) for a, b in pairwise(cuts)]
    assert torch.equal(torch.cat(parts, dim=1), whole)


def test_antithetic_halves_are_mirror_images_and_share_a_unit():
    made: Sampler = make(composed("sampler=antithetic"), "sampler", Sampler)
    made.bind(Noise(5, COLUMNS, torch.device("cpu"), Threads(1)), POPULATION)
    for pair in range(POPULATION // 2):
        assert torch.equal(perturbation(made, 2 * pair), -perturbation(made, 2 * pair + 1))
    assert len(made.units(range(POPULATION))) == made.directions == POPULATION // 2


def test_antithetic_refuses_an_odd_population():
    made: Sampler = make(composed("sampler=antithetic"), "sampler", Sampler)
    with pytest.raises(ConfigError, match="population=7: sampler=antithetic needs an even population"):
        made.check(7)
