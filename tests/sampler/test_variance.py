"""Variance and bias of estimates against the formulas of docs/explanation/variance.md, within five standard errors.

``scripts/variance.py`` has the formulas and the draws; here are fewer draws than on the page, with the same seeds every time.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from neuro_cli.sampler.iid import Iid
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.sampler.noise_table import NoiseTable
from neuro_cli.sampler.sign_flip import SignFlip


def loaded() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "variance.py"
    spec = importlib.util.spec_from_file_location("variance_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = loaded()
LINEAR, CONVOLUTION, BIAS = script.SHAPES.values()


def near(measured: tuple[float, float], formula: float) -> None:
    mean, error = measured
    assert abs(mean - formula) < 5 * error, (mean, error, formula)
    assert error < 0.1 * formula  # so that the test means something


ROWS = [row for row in script.ROWS if row.name != "noise_table"]


@pytest.mark.parametrize(  # a layer of taps meets every formula whole, the others some of them
    ("row", "shape"),
    [
        *((row, CONVOLUTION) for row in ROWS),
        *(pytest.param(row, (LINEAR, BIAS)[place % 2], marks=pytest.mark.slow) for place, row in enumerate(ROWS[::2])),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_variance_of_a_sampler_is_its_formula(row, shape):
    near(script.variance(row.sampler(), shape, 16, 800), row.formula(shape, 16))


@pytest.mark.parametrize("shape", [LINEAR, CONVOLUTION], ids=["linear", "convolution"])
def test_no_population_takes_sign_flips_of_one_matrix_to_the_gradient_and_matrices_of_few_directions_do(shape):
    mean, error = script.variance(SignFlip(), shape, 1024, 500)
    near((mean, error), script.with_floor(shape, 1024, script.sign_flip_floor(shape)))
    assert mean > 0.5 * (1 + shape.taps)
    near(
        script.variance(SignFlip("both", 16), shape, 1024, 50), script.with_floor(shape, 1024, script.sign_flip_floor(shape), 16)
    )


def test_the_mean_over_sign_flips_of_one_matrix_is_the_gradient_times_squares_of_the_noise():
    sampler, gradient = SignFlip(), torch.arange(1.0, LINEAR.size + 1, dtype=torch.float64)
    eps = next(script.noise(sampler, LINEAR, 4096, range(1)))
    estimates = (eps @ gradient)[:, None] * eps
    expected = eps[0] ** 2 * gradient  # all directions have the sizes of one matrix
    assert torch.allclose((eps**2).std(0), torch.zeros(LINEAR.size, dtype=torch.float64), atol=1e-6)
    assert ((estimates.mean(0) - expected).abs() < 5 * estimates.std(0) / 64 + 1e-9).all()


def test_a_noise_table_is_as_many_directions_as_it_has_places_and_no_more(tmp_path):
    size = 96
    sampler = NoiseTable(size, str(tmp_path))
    mean, error = script.variance(sampler, LINEAR, 4096, 100)
    table = torch.from_numpy(np.array(sampler._table)).double().unfold(0, LINEAR.size, 1)
    kept = table.T @ table / len(table) - torch.eye(LINEAR.size, dtype=torch.float64)
    floor = float(kept.square().sum()) / LINEAR.size
    second = float((table.square().sum(1)[:, None, None] * table[:, :, None] * table[:, None]).mean(0).trace()) / LINEAR.size
    near((mean, error), floor + second / 4096)  # the part that falls with the directions is small
    assert 0.4 < floor / ((LINEAR.size + 1) / len(table)) < 2.5  # one table; the formula is the mean over tables


@pytest.mark.parametrize("ratio", [0.0, 1.0, 4.0])
def test_pairs_have_twice_the_variance_on_a_linear_fitness_and_less_where_the_even_part_is_larger(ratio):
    size, population = 20, 16
    unit = (size + 1) / population
    alone = script.measured_pairs(ratio, size, population, 1500, "none")
    pairs = script.measured_pairs(ratio, size, population, 1500)
    near(alone, unit * 2 / script.pairs_over_independent(ratio, size))
    near(pairs, 2 * unit)
    near(script.measured_pairs(ratio, size, population, 1500, "other"), 2 * unit + ratio * size / population)


def test_one_member_without_its_mate_brings_the_fitness_level_back():
    near(script.measured_remainder(0.0, 100, 64, 1000), script.remainder(0.0, 100, 64))
    near(script.measured_remainder(10.0, 100, 64, 1000), script.remainder(10.0, 100, 64))
    assert script.remainder(10.0, 100, 64) > 1.3 * script.remainder(0.0, 100, 64)


def test_ranks_over_all_members_turn_the_estimate_and_the_more_the_larger_the_population():
    angles = {population: script.turned("centred_rank", population, True, 2.0, 40_000) for population in (2, 4, 16, 64)}
    assert abs(angles[2][0]) < 5 * angles[2][1]  # two members are one pair
    for few, many in ((2, 4), (4, 16)):
        assert angles[many][0] - angles[few][0] > 5 * np.hypot(angles[few][1], angles[many][1])
    independent = script.turned("centred_rank", 64, False, 2.0, 40_000)
    assert abs(angles[64][0] - independent[0]) < 5 * np.hypot(angles[64][1], independent[1])


@pytest.mark.parametrize("shaping", ["pair_rank", "pair_rank_cubed", "pair_z_score", "centred"])
@pytest.mark.parametrize("population", [4, 64])
def test_pairs_that_are_compared_with_themselves_and_plain_fitnesses_keep_the_direction(shaping, population):
    angle, error = script.turned(shaping, population, True, 2.0, 40_000)
    assert abs(angle) < 5 * error
    assert error < 1.5


def test_adam_over_noise_of_rank_1_turns_from_a_gradient_that_lies_in_one_row():
    shape, directions, steps, networks = script.Shape(24, 24), 4, 150, 12
    ways = {}
    for rank, sampler in ((None, Iid), (1, lambda: LowRank(1))):
        for rows in (1, shape.outputs):
            ways[rank, rows] = script.adam_cosine(sampler(), shape, rows, directions, steps, networks)
            near(ways[rank, rows], script.mean_of(shape, networks, rows, directions, steps, rank))
    lost = {rank: ways[rank, shape.outputs][0] - ways[rank, 1][0] for rank in (None, 1)}
    error = np.linalg.norm([error for _, error in ways.values()])
    assert lost[None] > 5 * error / 2
    assert lost[1] - lost[None] > 5 * error
    plain = [script.adam_cosine(LowRank(1), shape, rows, directions, steps, networks, "SGD") for rows in (1, shape.outputs)]
    for measured in plain:
        near(measured, (1 + script.low_rank(shape, directions) / steps) ** -0.5)
