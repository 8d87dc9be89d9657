"""The algorithms without models or ranks, on landscapes with known answers."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from neuro_cli.algo.ars import ARS
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.algo.clipup import ClipUp
from neuro_cli.algo.genetic import Genetic
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.algo.optimized_centre import CentreOptimizer
from neuro_cli.algo.pgpe import PGPE
from neuro_cli.algo.sep_cma_es import SepCMAES
from neuro_cli.algo.sgd import SGD
from neuro_cli.algo.snes import SNES
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.schedule import Schedule
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.iid import Iid

Landscape = Callable[[np.ndarray], np.ndarray]  # candidates (P, M) to fitnesses (P,)
DIMENSIONS = 10


def constant(key: str) -> Schedule:
    return Schedule(key, "constant", 1.0, 1)


def openai_es(sigma: float, optimizer, shaping: str = "centred_rank", decay: float = 0.0) -> OpenAIES:
    return OpenAIES(sigma, optimizer, shaping, decay, constant("algo.sigma_schedule"), constant("algo.lr_schedule"))


def pgpe(sigma: float, optimizer, shaping: str = "centred_rank", rate: float = 0.1, schedule: Schedule | None = None) -> PGPE:
    return PGPE(sigma, rate, 0.2, optimizer, shaping, schedule or constant("algo.lr_schedule"))


def ars(sigma: float, top: int | None, rate: float, schedule: Schedule | None = None) -> ARS:
    return ARS(sigma, top, lambda p: torch.optim.SGD(p, lr=rate), schedule or constant("algo.lr_schedule"))


def clipup(rate: float):
    return lambda parameters: ClipUp(parameters, lr=rate)


def adam(rate: float):
    return lambda parameters: torch.optim.Adam(parameters, lr=rate)


def layout_of(columns: int) -> ParameterLayout:
    return ParameterLayout(nn.Linear(columns, 1, bias=False))


def antithetic() -> Iid:
    return Iid(antithetic=True)


def sampler_of(kind: Callable[[], Sampler], columns: int, population: int, seed: int = 3) -> Sampler:
    sampler = kind()
    sampler.bind(Noise(seed, columns, torch.device("cpu"), Threads(1)), population, layout_of(columns))
    return sampler


def candidates(algo: PopulationAlgorithm, sampler: Sampler, generation: int, population: int) -> np.ndarray:
    """Explicit candidates (P, M), by the definition in the contract."""
    proposal = algo.ask(generation)
    rows = []
    for member in range(population):
        direction, sign = sampler.side(member)
        step = proposal.scale * sign * sampler.explicit(generation, direction)
        base = proposal.bases[proposal.parent_of(member)]
        rows.append(base if member in proposal.frozen else base + step)
    return torch.stack(rows).double().numpy()


def run(
    algo: PopulationAlgorithm, kind: Callable[[], Sampler], landscape: Landscape, population: int, generations: int
) -> np.ndarray:
    """The centre after ``generations``, from a start at 1 in every dimension."""
    sampler = sampler_of(kind, DIMENSIONS, population)
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), population, 3)
    for generation in range(generations):
        fitness = landscape(candidates(algo, sampler, generation, population))
        wanted = algo.combination(generation, fitness)
        algo.tell(generation, sampler.combine(wanted.weights, wanted.moments, generation, range(population), 0, DIMENSIONS))
    return algo.centre.double().numpy()


def ellipsoid(points: np.ndarray) -> np.ndarray:
    """Negative sum of 1000**(i / 9) x_i**2: condition number 1,000, best value 0 at the origin."""
    return -(1000 ** (np.arange(DIMENSIONS) / (DIMENSIONS - 1)) * points**2).sum(axis=1)


START = ellipsoid(np.ones((1, DIMENSIONS)))[0]  # the fitness from which every run begins


@pytest.mark.parametrize("kind", [Iid, antithetic])
def test_mean_estimate_is_the_gradient_of_a_quadratic(kind):
    """Raw fitness x'Ax: the expected estimate is exactly 2Ax (Gaussian smoothing adds a constant only)."""
    random = np.random.default_rng(0)
    matrix = random.standard_normal((DIMENSIONS, DIMENSIONS))
    matrix = -(matrix @ matrix.T)
    point = torch.ones(DIMENSIONS)
    population, generations = 40, 400
    algo = openai_es(0.1, lambda parameters: torch.optim.SGD(parameters, lr=0.0), "raw")
    algo.start(point, layout_of(DIMENSIONS), population, 3)
    sampler = sampler_of(kind, DIMENSIONS, population)
    estimates = []
    for generation in range(generations):
        points = candidates(algo, sampler, generation, population)
        fitness = np.einsum("pi,ij,pj->p", points, matrix, points)
        fitness -= float(np.ones(DIMENSIONS) @ matrix @ np.ones(DIMENSIONS))  # a baseline: less variance, no bias
        wanted = algo.combination(generation, fitness)
        sums = sampler.combine(wanted.weights, wanted.moments, generation, range(population), 0, DIMENSIONS)
        estimates.append(sums[0].double().numpy())
    mean, error = np.mean(estimates, axis=0), np.std(estimates, axis=0) / np.sqrt(generations)
    gradient = 2 * matrix @ np.ones(DIMENSIONS)
    assert (np.abs(mean - gradient) < 5 * error).all()
    assert np.linalg.norm(mean - gradient) < 0.05 * np.linalg.norm(gradient)


@pytest.mark.parametrize("kind", [Iid, antithetic])
def test_snes_reaches_the_optimum_of_an_ellipsoid(kind):
    centre = run(SNES(0.5, 1.0, None, "nes_utilities", constant("algo.lr_schedule")), kind, ellipsoid, 20, 200)
    assert ellipsoid(centre[None])[0] > -1e-6


@pytest.mark.parametrize(
    ("kind", "shaping"),
    [
        (Iid, "centred_rank"),
        (antithetic, "nes_utilities"),
        *(pytest.param(antithetic, name, marks=pytest.mark.slow) for name in ("centred_rank", "z_score")),
    ],
)
def test_openai_es_reaches_the_optimum_of_an_ellipsoid(kind, shaping):
    algo = OpenAIES(
        0.05,
        adam(0.1),
        shaping,
        0.0,
        Schedule("algo.sigma_schedule", "exponential", 1e-3, 225),
        Schedule("algo.lr_schedule", "exponential", 1e-3, 225),
    )
    assert ellipsoid(run(algo, kind, ellipsoid, 40, 225)[None])[0] > 1e-4 * START


@pytest.mark.parametrize("kind", [Iid, antithetic])
def test_sep_cma_es_reaches_the_optimum_of_an_ellipsoid(kind):
    assert ellipsoid(run(SepCMAES(0.5), kind, ellipsoid, 20, 200)[None])[0] > -1e-6


def sep_cma_es(start: np.ndarray, sigma: float, noise: list[np.ndarray], landscape: Landscape) -> list[np.ndarray]:
    """Centres after every generation by the equations of pycma's diagonal, written a second time. ``noise``: (P, n) of each."""
    n, size = len(start), len(noise[0])
    w = np.array([np.log((size + 1) / 2) - np.log(i + 1) for i in range(size)])
    mu_eff, mu_minus = (x.sum() ** 2 / (x**2).sum() for x in (w[w > 0], w[w < 0]))
    c_1 = 1 / (n + 2 * np.sqrt(n) + mu_eff / n)
    c_mu = (0.25 + mu_eff + 1 / mu_eff - 2) / (n + 4 * np.sqrt(n) + mu_eff / 2)
    alpha = min(1 + c_1 / c_mu, 1 + 2 * mu_minus / (mu_eff + 2))
    w = np.where(w > 0, w / w[w > 0].sum(), alpha * w / -w[w < 0].sum())
    c_c = (1 + 1 / n + mu_eff / n) / (np.sqrt(n) + 1 / n + 2 * mu_eff / n)
    c_sigma = (mu_eff + 2) / (n + mu_eff + 3)
    d_sigma = 1 + 2 * max(0, 3 * (1 - 0.5 ** (n / 9)) * np.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma
    chi = np.sqrt(2) * math.gamma((n + 1) / 2) / math.gamma(n / 2)
    mean, scale, p_sigma, p_c, found = start.copy(), np.ones(n), np.zeros(n), np.zeros(n), []
    for generation, z in enumerate(noise):
        z = z[np.argsort(-landscape(mean + sigma * scale * z))]
        z_w = w[w > 0] @ z[w > 0]
        mean = mean + sigma * scale * z_w
        p_sigma = (1 - c_sigma) * p_sigma + np.sqrt(c_sigma * (2 - c_sigma) * mu_eff) * z_w
        h = p_sigma @ p_sigma / (1 - (1 - c_sigma) ** (2 * (generation + 1))) / n < 2 + 4 / (n + 1)
        p_c = (1 - c_c) * p_c + h * np.sqrt(c_c * (2 - c_c) * mu_eff) * z_w
        one = c_1 * (1 - (1 - h) * c_c * (2 - c_c))
        scale = scale * 2 ** ((one * (p_c**2 - 1) + c_mu * (w @ (z**2 - 1))) / 2)
        sigma *= np.exp(c_sigma / d_sigma * (np.linalg.norm(p_sigma) / chi - 1))
        found.append(mean)
    return found


def test_sep_cma_es_is_pycmas_diagonal():
    population, generations, kept = 12, 40, []
    sampler, algo = sampler_of(Iid, DIMENSIONS, population), SepCMAES(0.5)
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), population, 3)
    for generation in range(generations):
        fitness = ellipsoid(candidates(algo, sampler, generation, population))
        wanted = algo.combination(generation, fitness)
        algo.tell(generation, sampler.combine(wanted.weights, wanted.moments, generation, range(population), 0, DIMENSIONS))
        kept.append(algo.centre.double().numpy().copy())
    noise = [sampler.noise.draw(generation, range(population)).double().numpy() for generation in range(generations)]
    np.testing.assert_allclose(kept, sep_cma_es(np.ones(DIMENSIONS), 0.5, noise, ellipsoid), rtol=0, atol=2e-4)


def test_sep_cma_es_needs_a_better_half():
    with pytest.raises(ConfigError, match="population=3: algo=sep_cma_es takes the mean of the better half: at least 4"):
        SepCMAES().start(torch.ones(4), layout_of(4), 3, 1)


def test_pgpe_reaches_the_optimum_of_an_ellipsoid():
    schedule = Schedule("algo.lr_schedule", "exponential", 1e-4, 200)
    centre = run(pgpe(0.3, clipup(0.1), rate=0.3, schedule=schedule), antithetic, ellipsoid, 40, 200)
    assert ellipsoid(centre[None])[0] > 5e-3 * START


@pytest.mark.parametrize("top", [None, 10])
def test_ars_nears_the_optimum_of_an_ellipsoid(top):
    """Without momentum the long axes take their time."""
    schedule = Schedule("algo.lr_schedule", "exponential", 1e-4, 250)
    centre = run(ars(0.01, top, 0.1, schedule), antithetic, ellipsoid, 40, 250)
    assert ellipsoid(centre[None])[0] > 1e-2 * START


def test_genetic_improves_the_ellipsoid_and_never_loses_its_best():
    algo = Genetic(0.1, 5, constant("algo.sigma_schedule"))
    best = [ellipsoid(run(algo, Iid, ellipsoid, 30, generations)[None])[0] for generations in (1, 10, 50, 200)]
    assert best == sorted(best)
    assert best[-1] > 0.01 * START


def test_genetic_chains_rebuild_every_parent():
    algo = Genetic(0.1, 5, Schedule("algo.sigma_schedule", "linear", 0.1, 20))
    run(algo, antithetic, ellipsoid, 30, 20)
    sampler = sampler_of(antithetic, DIMENSIONS, 30)
    assert max(map(len, algo.chains)) > 3
    for row, chain in enumerate(algo.chains):
        rebuilt = torch.ones(DIMENSIONS)
        for generation, member in chain:
            direction, sign = sampler.side(member)
            step = sign * sampler.explicit(generation, direction)
            rebuilt = rebuilt + torch.tensor(algo.sigma_at(generation), dtype=torch.float32) * step
        assert torch.equal(rebuilt, algo.state().tensors["bases"][row])


def test_openai_es_step_is_the_published_one():
    """Plain gradient ascent, weight decay, centred ranks, in float64 from the definition."""
    population, sigma, rate, decay = 6, 0.2, 0.5, 0.1
    algo = openai_es(sigma, lambda parameters: torch.optim.SGD(parameters, lr=rate), decay=decay)
    sampler = sampler_of(Iid, DIMENSIONS, population)
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), population, 3)
    fitness = np.array([0.3, -2.0, 5.0, 0.1, 0.0, 7.0])
    eps = sampler.noise.draw(0, range(population)).double().numpy()
    utilities = fitness.argsort().argsort() / (population - 1) - 0.5
    expected = np.ones(DIMENSIONS) + rate * (utilities @ eps / (population * sigma) - decay)
    wanted = algo.combination(0, fitness)
    algo.tell(0, sampler.combine(wanted.weights, wanted.moments, 0, range(population), 0, DIMENSIONS))
    np.testing.assert_allclose(algo.centre.numpy(), expected, rtol=1e-6)


def test_snes_step_is_the_published_one():
    population, sigma = 6, 0.3
    algo = SNES(sigma, 0.7, 0.4, "nes_utilities", constant("algo.lr_schedule"))
    sampler = sampler_of(Iid, DIMENSIONS, population)
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), population, 3)
    fitness = np.array([0.3, -2.0, 5.0, 0.1, 0.0, 7.0])
    eps = sampler.noise.draw(0, range(population)).double().numpy()
    weights = np.array([max(0.0, np.log(4) - np.log(k)) for k in range(1, 7)])
    utilities = (weights / weights.sum() - 1 / 6)[(-fitness).argsort().argsort()]
    wanted = algo.combination(0, fitness)
    algo.tell(0, sampler.combine(wanted.weights, wanted.moments, 0, range(population), 0, DIMENSIONS))
    np.testing.assert_allclose(algo.centre.numpy(), 1 + 0.7 * sigma * (utilities @ eps), rtol=1e-6)
    sigmas = algo.state().tensors["sigma"].numpy()
    np.testing.assert_allclose(sigmas, sigma * np.exp(0.2 * (utilities @ (eps**2 - 1))), rtol=1e-6)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad])
def test_optimizer_steps_on_convolutions_are_torchs_also_after_a_restore(kind):
    """Channels-last views, fused steps and restored state against a plain optimizer on contiguous tensors."""
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(5, 2))
    layout = ParameterLayout(module)
    factory = partial(kind, lr=0.1, **({"momentum": 0.9} if kind is torch.optim.SGD else {}))
    start = layout.flatten(module)
    ours = CentreOptimizer(factory, constant("algo.lr_schedule"), start, layout)
    theirs = factory(module.parameters())
    for generation in range(6):
        gradient = torch.sin(torch.arange(layout.size) * (generation + 1.0))
        for parameter, view in zip(module.parameters(), layout.views(-gradient), strict=True):
            parameter.grad = view.clone()
        theirs.step()
        if generation == 3:
            state = ours.state()
            state.tensors = {name: tensor.contiguous() for name, tensor in state.tensors.items()}
            ours = CentreOptimizer(factory, constant("algo.lr_schedule"), torch.zeros(layout.size), layout)
            ours.restore(state)
        ours.ascend(generation, gradient.clone())
    torch.testing.assert_close(ours.centre, layout.flatten(module), rtol=1e-5, atol=1e-6)


def told(algo: PopulationAlgorithm, sampler: Sampler, generation: int, fitness: np.ndarray) -> None:
    wanted = algo.combination(generation, fitness)
    algo.tell(generation, sampler.combine(wanted.weights, wanted.moments, generation, range(len(fitness)), 0, DIMENSIONS))


def test_pgpe_is_the_published_one():
    """Three generations in float64 from the definitions: symmetric sampling, ClipUp, sigma within a fifth of itself."""
    population, rate, momentum, sigma_rate = 8, 0.3, 0.9, 6.0
    algo = pgpe(0.2, clipup(rate), rate=sigma_rate)
    sampler = sampler_of(antithetic, DIMENSIONS, population)
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), population, 3)
    mean, sigma, velocity = np.ones(DIMENSIONS), np.full(DIMENSIONS, 0.2), np.zeros(DIMENSIONS)
    clipped = 0
    for generation in range(3):
        noise = sampler.noise.draw(generation, range(population // 2)).double().numpy()
        fitness = np.stack([ellipsoid(mean + sigma * noise), ellipsoid(mean - sigma * noise)], axis=1)
        ranks = fitness.ravel().argsort().argsort().reshape(-1, 2) / (population - 1) - 0.5
        steps = sigma * noise  # epsilon of the paper
        gradient = ((ranks[:, 0] - ranks[:, 1]) / 2) @ steps / len(steps)
        of_sigma = (ranks.mean(axis=1) - ranks.mean()) @ ((steps**2 - sigma**2) / sigma) / len(steps)
        velocity = momentum * velocity + rate * gradient / np.linalg.norm(gradient)
        velocity *= min(1.0, 2 * rate / np.linalg.norm(velocity))
        mean = mean + velocity
        wanted = sigma + sigma_rate * of_sigma
        clipped += int((np.abs(wanted - sigma) > 0.2 * sigma).sum())
        sigma = np.clip(wanted, 0.8 * sigma, 1.2 * sigma)
        told(algo, sampler, generation, fitness.ravel())
        np.testing.assert_allclose(algo.centre.numpy(), mean, rtol=1e-5)
        np.testing.assert_allclose(algo.ask(generation).scale.numpy(), sigma, rtol=1e-5)
    assert 0 < clipped < 3 * DIMENSIONS, "some sigmas were limited, others were not"


def test_pgpe_without_a_rate_for_sigma_asks_for_one_row_and_keeps_it():
    algo = pgpe(0.2, clipup(0.1), rate=0.0)
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), 8, 3)
    sampler = sampler_of(antithetic, DIMENSIONS, 8)
    assert algo.combination(0, np.arange(8.0)).moments == (1,)
    told(algo, sampler, 0, np.arange(8.0))
    assert algo.ask(1).scale.tolist() == [pytest.approx(0.2)]
    assert not torch.equal(algo.centre, torch.ones(DIMENSIONS))


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
    population, rate = 8, 0.5
    algo = ars(0.2, top, rate)
    sampler = sampler_of(antithetic, DIMENSIONS, population)
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), population, 3)
    noise = sampler.noise.draw(0, range(4)).double().numpy()
    pairs = np.array([[1.0, 2.0], [9.0, -3.0], [0.5, 0.0], [4.0, 5.0]])
    best = [1, 3] if top else [0, 1, 2, 3]
    step = sum((pairs[k, 0] - pairs[k, 1]) * noise[k] for k in best) / (len(best) * pairs[best].std())
    told(algo, sampler, 0, pairs.ravel())
    np.testing.assert_allclose(algo.centre.numpy(), 1 + rate * step, rtol=1e-5)


def test_ars_stands_still_where_all_are_equal():
    algo = ars(0.2, None, 0.5)
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), 8, 3)
    told(algo, sampler_of(antithetic, DIMENSIONS, 8), 0, np.full(8, 2.0))
    assert torch.equal(algo.centre, torch.ones(DIMENSIONS))


def test_sgd_is_torch_sgd():
    algo = SGD(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), constant("algo.lr_schedule"))
    algo.start(torch.ones(DIMENSIONS), layout_of(DIMENSIONS), 1, 3)
    parameter = nn.Parameter(torch.ones(DIMENSIONS))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    for generation in range(5):
        algo.tell_gradient(generation, 2 * algo.centre)
        parameter.grad = 2 * parameter.detach()
        optimizer.step()
    assert torch.equal(algo.centre, parameter.detach())


def test_centred_with_plain_sgd_is_the_published_step_of_vanilla_nes():
    """The sum over i of alpha (r_i - mean r) E_i with E_i = sigma eps_i."""
    alpha, sigma, fitness = 0.3, 0.05, np.array([3.0, -1.0, 10.0, 4.0])
    noise, layout = np.random.default_rng(1).standard_normal((4, 6)), ParameterLayout(torch.nn.Linear(2, 2))
    rate = alpha * len(fitness) * sigma**2
    algo = openai_es(sigma, partial(torch.optim.SGD, lr=rate), "centred")
    algo.start(torch.zeros(6), layout, len(fitness), 1)
    algo.tell(0, torch.from_numpy(algo.combination(0, fitness).weights @ noise).float())
    published = alpha * (fitness - fitness.mean()) @ (sigma * noise)
    np.testing.assert_allclose(algo.centre.numpy(), published, rtol=1e-5)
