"""CMA-ES against its equations, written a second time, and against pycma where it is installed."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from neuro_cli.algo.cma_es import CMAES
from neuro_cli.algo.sep_cma_es import SepCMAES
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout

N, POPULATION = 6, 10


def layout_of(size: int) -> ParameterLayout:
    return ParameterLayout(nn.Linear(size, 1, bias=False))


def cost(points: np.ndarray) -> np.ndarray:
    """Turned quadratic, condition number 1,000; best value 0 at the origin."""
    turn, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((N, N)))
    return (1000 ** (np.arange(N) / (N - 1)) * (points @ turn) ** 2).sum(axis=1)


def started(population: int = POPULATION) -> CMAES:
    algo = CMAES(0.5)
    algo.start(torch.ones(N, dtype=torch.float64), layout_of(N), population, 3)
    return algo


def points_of(algo: CMAES, generation: int, noise: np.ndarray) -> np.ndarray:
    proposal = algo.ask(generation)
    return (proposal.bases[0] + proposal.scale * proposal.transform(torch.from_numpy(noise))).numpy()


def told(algo: CMAES, generation: int, noise: np.ndarray) -> None:
    wanted = algo.combination(generation, -cost(points_of(algo, generation, noise)))
    assert wanted.moments == (1,) * len(noise)
    algo.tell(generation, torch.from_numpy(wanted.weights @ noise))


def equations(noise: np.ndarray) -> list[np.ndarray]:
    """Centres of every generation by arXiv:1604.00772, figure 6, with pycma's constants; a decomposition in every generation."""
    n, size = N, len(noise[0])
    w = math.log((size + 1) / 2) - np.log(np.arange(1, size + 1))
    mu_eff = w[w > 0].sum() ** 2 / (w[w > 0] ** 2).sum()
    mu_minus = w[w < 0].sum() ** 2 / (w[w < 0] ** 2).sum()
    c_1 = min(1, size / 6) * 2 / ((n + 1.3) ** 2 + mu_eff)
    c_mu = min(1 - c_1, 2 * (0.25 + mu_eff - 2 + 1 / mu_eff) / ((n + 2) ** 2 + mu_eff))
    alpha = min(1 + c_1 / c_mu, 1 + 2 * mu_minus / (mu_eff + 2), (1 - c_1 - c_mu) / (n * c_mu))
    w = np.where(w > 0, w / w[w > 0].sum(), alpha * w / -w[w < 0].sum())
    c_s, c_c = (mu_eff + 2) / (n + mu_eff + 3), (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)
    d_s = 1 + 2 * max(0, max(1, 3 * (1 - 0.5 ** (n / 9))) * math.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_s
    chi = math.sqrt(2) * math.gamma((n + 1) / 2) / math.gamma(n / 2)
    mean, sigma, c, p_s, p_c, found = np.ones(n), 0.5, np.eye(n), np.zeros(n), np.zeros(n), []
    for generation, z in enumerate(noise):
        values, b = np.linalg.eigh(c)
        root = b @ np.diag(np.sqrt(values)) @ b.T
        y = z @ root.T
        order = np.argsort(cost(mean + sigma * y))
        y, z = y[order], z[order]
        y_w = w[w > 0] @ y[w > 0]
        mean = mean + sigma * y_w
        p_s = (1 - c_s) * p_s + math.sqrt(c_s * (2 - c_s) * mu_eff) * (w[w > 0] @ z[w > 0])
        h = p_s @ p_s / (1 - (1 - c_s) ** (2 * (generation + 1))) / n < 2 + 4 / (n + 1)
        p_c = (1 - c_c) * p_c + h * math.sqrt(c_c * (2 - c_c) * mu_eff) * y_w
        scaled = np.where(w < 0, w * n / (z**2).sum(axis=1), w)
        c = (1 - c_1 * (1 - (1 - h) * c_c * (2 - c_c)) - c_mu * w.sum()) * c
        c = c + c_1 * np.outer(p_c, p_c) + c_mu * sum(s * np.outer(v, v) for s, v in zip(scaled, y, strict=True))
        sigma *= math.exp(min(1, c_s / d_s * (np.linalg.norm(p_s) / chi - 1)))
        found.append(mean)
    return found


def test_cma_es_is_the_published_algorithm():
    algo, found, noise = started(), [], np.random.default_rng(7).standard_normal((40, POPULATION, N))
    algo._gap = 0.0
    for generation, drawn in enumerate(noise):
        told(algo, generation, drawn)
        found.append(algo.centre.numpy().copy())
    np.testing.assert_allclose(found, equations(noise), rtol=0, atol=1e-6)


def test_every_generation_is_pycmas():
    cma = pytest.importorskip("cma")
    es = cma.CMAEvolutionStrategy(np.ones(N), 0.5, {"popsize": POPULATION, "verbose": -9, "seed": 3})
    es.sm.C, es.sm.D, es.sm.B = np.eye(N), np.ones(N), np.eye(N)  # which it begins with, but for 0.0001 against equal values
    algo = started()
    for generation in range(60):
        points = np.array(es.ask())
        form = algo._form.numpy()
        noise = np.linalg.solve(form, ((points - algo.centre.numpy()) / algo._size).T).T
        told(algo, generation, noise)
        es.tell(list(points), cost(points))
        assert algo._size == pytest.approx(es.sigma, rel=1e-7)
        np.testing.assert_allclose(algo.centre.numpy(), es.mean, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(algo._covariance.numpy(), es.sm.C, rtol=1e-6, atol=1e-7)
    assert algo.condition(60) > 20, "it has learnt"


def test_state_is_exact_between_decompositions():
    noise = np.random.default_rng(7).standard_normal((9, POPULATION, N))
    algo, again = started(), started()
    algo._gap = again._gap = 4.0
    for generation, drawn in enumerate(noise):
        told(algo, generation, drawn)
        if generation == 5:  # between two
            again.restore(algo.state())
        elif generation > 5:
            told(again, generation, drawn)
    assert torch.equal(again.centre, algo.centre)
    assert torch.equal(again._covariance, algo._covariance)


def test_ties_change_nothing():
    algo = started()
    algo.combination(0, np.zeros(POPULATION))
    algo.tell(0, torch.from_numpy(np.random.default_rng(1).standard_normal((POPULATION, N))))
    assert torch.equal(algo.centre, torch.ones(N, dtype=torch.float64))
    assert algo.condition(1) == 1.0


def test_too_few_members_are_refused():
    with pytest.raises(ConfigError, match="population=3: algo=cma_es takes the mean of the better half: at least 4"):
        started(3)


def test_every_generation_of_the_diagonal_is_pycmas():
    cma = pytest.importorskip("cma")
    es = cma.CMAEvolutionStrategy(np.ones(N), 0.5, {"popsize": POPULATION, "verbose": -9, "seed": 3, "CMA_diagonal": True})
    algo = SepCMAES(0.5)
    algo.start(torch.ones(N, dtype=torch.float64), layout_of(N), POPULATION, 3)
    for generation in range(60):
        points = np.array(es.ask())
        noise = (points - algo.centre.numpy()) / algo.ask(generation).scale.numpy()
        wanted = algo.combination(generation, -cost(points))
        algo.tell(generation, torch.from_numpy(np.stack([wanted.weights[0] @ noise, wanted.weights[1] @ (noise**2 - 1)])))
        es.tell(list(points), cost(points))
        assert algo._size == pytest.approx(es.sigma, rel=1e-7)
        np.testing.assert_allclose(algo.centre.numpy(), es.mean, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(algo.ask(generation).scale.numpy(), es.sigma * es.sigma_vec.scaling, rtol=1e-6)
    assert algo.condition(60) > 4, "it has learnt"
