"""The algorithms without models or ranks, on landscapes with known answers."""

from functools import partial

import numpy as np
import pytest
import torch
from algo_lab import centres, noise_of, started, told
from torch import nn

from neuro_cli.algo.ars import ARS
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.algo.clipup import ClipUp
from neuro_cli.algo.genetic import Genetic
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.algo.pgpe import PGPE
from neuro_cli.algo.sep_cma_es import SepCMAES
from neuro_cli.algo.sgd import SGD
from neuro_cli.algo.snes import SNES
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import CONSTANT, Schedule

DIMENSIONS = 10
ONES = torch.ones(DIMENSIONS)
KEYS = ("sigma", "lr")  # of schedules


def sgd(rate: float) -> partial:
    return partial(torch.optim.SGD, lr=rate)


def falling(key: str, to: float, generations: int) -> Schedule:
    return Schedule(f"algo.{key}_schedule", "exponential", to, generations)


def ellipsoid(points: np.ndarray) -> np.ndarray:
    """Negative sum of 1000**(i / 9) x_i**2: condition number 1,000, best value 0 at the origin."""
    return -(1000 ** (np.arange(DIMENSIONS) / (DIMENSIONS - 1)) * points**2).sum(axis=1)


START = ellipsoid(np.ones((1, DIMENSIONS)))[0]  # the fitness from which every run begins


@pytest.mark.parametrize("mirrored", [False, True])
def test_mean_estimate_is_the_gradient_of_a_quadratic(mirrored):
    """Raw fitness x'Ax: the expected estimate is exactly 2Ax (Gaussian smoothing adds a constant only)."""
    matrix = np.random.default_rng(0).standard_normal((DIMENSIONS, DIMENSIONS))
    matrix, one, generations, estimates = -(matrix @ matrix.T), np.ones(DIMENSIONS), 400, []
    algo = started(OpenAIES(0.1, sgd(1.0), "raw"), ONES, 40, mirrored)
    for generation in range(generations):
        algo.centre.fill_(1.0)
        # a baseline: less variance, no bias
        told(algo, generation, noise_of(generation, 40, DIMENSIONS, mirrored), lambda x: (x @ matrix * x).sum(1) - matrix.sum())
        estimates.append(algo.centre.double().numpy() - 1)
    mean, error = np.mean(estimates, axis=0), np.std(estimates, axis=0) / np.sqrt(generations)
    gradient = 2 * matrix @ one
    assert (np.abs(mean - gradient) < 5 * error).all()
    assert np.linalg.norm(mean - gradient) < 0.05 * np.linalg.norm(gradient)


@pytest.mark.parametrize(
    ("algo", "population", "generations", "fitness"),
    [
        (SNES(0.5), 20, 200, -1e-6),
        (SepCMAES(0.5), 20, 200, -1e-6),
        (PGPE(0.3, 0.3, 0.2, partial(ClipUp, lr=0.1), lr_schedule=falling("lr", 1e-4, 200)), 40, 200, 5e-3 * START),
        # without momentum the long axes take their time
        *((ARS(0.01, top, sgd(0.1), falling("lr", 1e-4, 250)), 40, 250, 1e-2 * START) for top in (None, 10)),
        *(
            (OpenAIES(0.05, partial(torch.optim.Adam, lr=0.1), shaping, 0.0, *(falling(key, 1e-3, 225) for key in KEYS)),
             40, 225, 1e-4 * START)
            for shaping in ("nes_utilities", "centred_rank", "z_score")
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PopulationAlgorithm) else None,
)  # fmt: skip
def test_an_algorithm_nears_the_optimum_of_an_ellipsoid(algo, population, generations, fitness):
    for mirrored in (True,) if algo.needs_pairs else (True, False):
        found = centres(algo, ellipsoid, generations, population, ONES, mirrored)
        assert ellipsoid(found[-1:])[0] > fitness


def test_genetic_improves_the_ellipsoid_and_never_loses_its_best():
    found = ellipsoid(centres(Genetic(0.1, 5), ellipsoid, 200, 30, ONES, mirrored=False))
    assert (np.diff(found) >= 0).all()
    assert found[0] < found[9] < found[-1]
    assert found[-1] > 0.01 * START


def test_genetic_chains_rebuild_every_parent():
    algo = Genetic(0.1, 5, Schedule("algo.sigma_schedule", "linear", 0.1, 20))
    centres(algo, ellipsoid, 20, 30, ONES)
    assert max(map(len, algo.chains)) > 3
    for row, chain in enumerate(algo.chains):
        rebuilt = ONES
        for generation, member in chain:
            step = torch.from_numpy(noise_of(generation, 30, DIMENSIONS)[member]).float()
            rebuilt = rebuilt + torch.tensor(algo.sigma_at(generation), dtype=torch.float32) * step
        assert torch.equal(rebuilt, algo.state().tensors["bases"][row])


FITNESS = np.array([0.3, -2.0, 5.0, 0.1, 0.0, 7.0])


def one_step(algo: PopulationAlgorithm, fitness: np.ndarray = FITNESS) -> np.ndarray:
    """Noise of the members in the one generation that the algorithm was told of."""
    noise = noise_of(0, len(fitness), DIMENSIONS, algo.needs_pairs)
    told(started(algo, ONES, len(fitness), algo.needs_pairs), 0, noise, fitness)
    return noise


def test_openai_es_step_is_the_published_one():
    """Plain gradient ascent, weight decay, centred ranks, in float64 from the definition."""
    sigma, rate, decay = 0.2, 0.5, 0.1
    algo = OpenAIES(sigma, sgd(rate), "centred_rank", decay)
    utilities = FITNESS.argsort().argsort() / 5 - 0.5
    expected = 1 + rate * (utilities @ one_step(algo) / (6 * sigma) - decay)
    np.testing.assert_allclose(algo.centre.numpy(), expected, rtol=1e-6)


def test_centred_with_plain_sgd_is_the_published_step_of_vanilla_nes():
    """The sum over i of alpha (r_i - mean r) E_i with E_i = sigma eps_i."""
    alpha, sigma = 0.3, 0.05
    algo = OpenAIES(sigma, sgd(alpha * 6 * sigma**2), "centred")
    published = alpha * (FITNESS - FITNESS.mean()) @ (sigma * one_step(algo))
    np.testing.assert_allclose(algo.centre.numpy(), 1 + published, rtol=1e-5)


def test_snes_step_is_the_published_one():
    sigma = 0.3
    algo = SNES(sigma, 0.7, 0.4)
    eps, weights = one_step(algo), np.array([max(0.0, np.log(4) - np.log(k)) for k in range(1, 7)])
    utilities = (weights / weights.sum() - 1 / 6)[(-FITNESS).argsort().argsort()]
    np.testing.assert_allclose(algo.centre.numpy(), 1 + 0.7 * sigma * (utilities @ eps), rtol=1e-6)
    sigmas = algo.state().tensors["sigma"].numpy()
    np.testing.assert_allclose(sigmas, sigma * np.exp(0.2 * (utilities @ (eps**2 - 1))), rtol=1e-6)


def test_pgpe_is_the_published_one():
    """Three generations in float64 from the definitions: symmetric sampling, ClipUp, sigma within a fifth of itself."""
    population, rate, momentum, sigma_rate = 8, 0.3, 0.9, 6.0
    algo = started(PGPE(0.2, sigma_rate, 0.2, partial(ClipUp, lr=rate)), ONES, population)
    mean, sigma, velocity = np.ones(DIMENSIONS), np.full(DIMENSIONS, 0.2), np.zeros(DIMENSIONS)
    clipped = 0
    for generation in range(3):
        noise = noise_of(generation, population, DIMENSIONS)
        fitness = ellipsoid(mean + sigma * noise)
        ranks = fitness.argsort().argsort().reshape(-1, 2) / (population - 1) - 0.5
        steps = sigma * noise[0::2]  # epsilon of the paper
        gradient = ((ranks[:, 0] - ranks[:, 1]) / 2) @ steps / len(steps)
        of_sigma = (ranks.mean(axis=1) - ranks.mean()) @ ((steps**2 - sigma**2) / sigma) / len(steps)
        velocity = momentum * velocity + rate * gradient / np.linalg.norm(gradient)
        velocity *= min(1.0, 2 * rate / np.linalg.norm(velocity))
        mean = mean + velocity
        wanted = sigma + sigma_rate * of_sigma
        clipped += int((np.abs(wanted - sigma) > 0.2 * sigma).sum())
        sigma = np.clip(wanted, 0.8 * sigma, 1.2 * sigma)
        told(algo, generation, noise, fitness)
        np.testing.assert_allclose(algo.centre.numpy(), mean, rtol=1e-5)
        np.testing.assert_allclose(algo.ask(generation).scale.numpy(), sigma, rtol=1e-5)
    assert 0 < clipped < 3 * DIMENSIONS, "some sigmas were limited, others were not"


def test_pgpe_without_a_rate_for_sigma_asks_for_one_row_and_keeps_it():
    algo = PGPE(0.2, 0.0)
    one_step(algo)
    assert algo.combination(0, np.arange(8.0)).moments == (1,)
    assert algo.ask(1).scale.tolist() == [pytest.approx(0.2)]
    assert not torch.equal(algo.centre, ONES)


def test_clipup_limits_its_speed_over_all_parameters_together():
    first, second = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2))
    optimizer = ClipUp([first, second], lr=1.0, momentum=0.9, max_speed=1.5)
    lengths = []
    for _ in range(4):
        before = torch.cat([first, second]).detach().clone()
        first.grad, second.grad = torch.full((3,), -3e5), torch.full((2,), -4e5)
        optimizer.step()
        lengths.append(float((torch.cat([first, second]) - before).norm().detach()))
    assert lengths == pytest.approx([1.0, 1.5, 1.5, 1.5], rel=1e-6)
    assert float(second[0].detach() / first[0].detach()) == pytest.approx(4 / 3, rel=1e-6)


def test_clipup_stands_still_without_a_gradient():
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.zeros(3)
    ClipUp([parameter], lr=1.0).step()
    assert torch.equal(parameter.detach(), torch.ones(3))


@pytest.mark.parametrize("top", [2, None])
def test_ars_step_is_the_published_one(top):
    rate, pairs = 0.5, np.array([[1.0, 2.0], [9.0, -3.0], [0.5, 0.0], [4.0, 5.0]])
    algo = ARS(0.2, top, sgd(rate))
    noise, best = one_step(algo, pairs.ravel())[0::2], [1, 3] if top else [0, 1, 2, 3]
    step = sum((pairs[k, 0] - pairs[k, 1]) * noise[k] for k in best) / (len(best) * pairs[best].std())
    np.testing.assert_allclose(algo.centre.numpy(), 1 + rate * step, rtol=1e-5)


@pytest.mark.parametrize(("members", "value"), [(50, 0.1), (100, 0.1), (1000, 0.3), (8, 2.5)])
def test_ars_takes_equal_fitnesses_for_equal_where_their_mean_is_rounded(members, value):
    assert not ARS(0.2, None, sgd(1.0)).combination(0, np.full(members, value)).weights.any()


def test_sgd_is_torch_sgd():
    algo, parameter = SGD(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), CONSTANT), nn.Parameter(ONES.clone())
    algo.start(ONES.clone(), ParameterLayout(nn.Linear(DIMENSIONS, 1, bias=False)), 1, 3)
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    for generation in range(5):
        algo.tell_gradient(generation, 2 * algo.centre)
        parameter.grad = 2 * parameter.detach()
        optimizer.step()
    assert torch.equal(algo.centre, parameter.detach())
