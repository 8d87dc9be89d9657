"""CR-FM-NES, xNES, CMA-ES and sep-CMA-ES against their equations, written a second time, and others' packages where installed."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from algo_lab import centres, layout_of, noise_of, started, told
from torch import nn

from neuro_cli import Evolution
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.algo.cma_es import CMAES
from neuro_cli.algo.cr_fm_nes import CRFMNES, inverse_of_h
from neuro_cli.algo.sep_cma_es import SepCMAES
from neuro_cli.algo.xnes import XNES
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.shaping import nes_utilities
from neuro_cli.library.named import option

N, POPULATION, GENERATIONS = 8, 12, 60
ONES = torch.ones(N)


def ellipsoid(points: np.ndarray) -> np.ndarray:
    """Negative quadratic, condition number 1,000, with its axes turned; best value 0 at the origin."""
    turn, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((N, N)))
    return -(1000 ** (np.arange(N) / (N - 1)) * (points @ turn) ** 2).sum(axis=1)


def noise(mirrored: bool = True) -> np.ndarray:
    """(G, P, N) that :func:`centres` gives members."""
    return np.stack([noise_of(generation, POPULATION, N, mirrored) for generation in range(GENERATIONS)])


def cr_fm_nes(v: np.ndarray, noise: np.ndarray, sigma: float) -> np.ndarray:
    """Centres by the equations of the paper, member by member in float64, with natural gradients by a full Fisher matrix.

    Instead of the closed form: the Fisher information of (v, log D) at covariance D (I + v v^T) D is solved as it stands.
    """
    n, size = N, POPULATION
    d, m, p_sigma, p_c, found = np.ones(n), np.ones(n), np.zeros(n), np.zeros(n), []
    hat = np.maximum(0, np.log(size / 2 + 1) - np.log(np.arange(1, size + 1)))
    w_rank = hat / hat.sum() - 1 / size
    mu = 1 / ((hat / hat.sum()) ** 2).sum()
    c_sigma, c_c = (mu + 2) / (n + mu + 5), (4 + mu / n) / (n + 4 + 2 * mu / n)
    c_1 = 2 / ((n + 1.3) ** 2 + mu) * (n - 5) / 6
    chi = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
    eta_b = math.tanh((min(0.02 * size, 3 * math.log(n)) + 5) / (0.23 * n + 25))
    low, high = 0.0, 20.0  # the distance weight's constant by bisection
    for _ in range(200):
        a = (low + high) / 2
        low, high = (a, high) if (1 + a * a) * math.exp(a * a / 2) / 0.24 - 10 < n else (low, a)
    alpha = low * min(1, math.sqrt(size / n))
    for z in noise.astype(np.float64):
        root = _root(v)
        y = z @ root
        order = np.argsort(-ellipsoid(m + sigma * d * y), kind="stable")
        z, y = z[order], y[order]
        p_sigma = (1 - c_sigma) * p_sigma + math.sqrt(c_sigma * (2 - c_sigma) * mu) * (w_rank @ z)
        length = np.linalg.norm(p_sigma)
        by_distance = hat * np.exp(alpha * np.linalg.norm(z, axis=1))
        w = by_distance / by_distance.sum() - 1 / size if length >= chi else w_rank
        if length >= chi:
            eta = 1.0
        elif length >= 0.1 * chi:
            eta = math.tanh((0.024 * size + 0.7 * n + 20) / (n + 12))
        else:
            eta = 2 * math.tanh((0.025 * size + 0.75 * n + 10) / (n + 4))
        step = w @ (d * y)
        p_c = (1 - c_c) * p_c + math.sqrt(c_c * (2 - c_c) * mu) * step
        m = m + sigma * step
        members = np.vstack([y, p_c / d])
        by_v, by_d = _natural_gradient(v, members, np.append(eta_b * w, c_1))
        sigma *= math.exp(eta / 2 * float((w @ (z**2 - 1)).mean()))
        v, d = v + by_v, d * (1 + by_d)
        d = d / (np.prod(d) * math.sqrt(1 + v @ v)) ** (1 / n)
        found.append(m)
    return np.array(found)


def _root(v: np.ndarray) -> np.ndarray:
    """Symmetric square root of I + v v^T."""
    values, vectors = np.linalg.eigh(np.eye(len(v)) + np.outer(v, v))
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


def _natural_gradient(v: np.ndarray, members: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fisher^-1 of the weighted gradients of ln N(D y; 0, D (I + v v^T) D) by v and by log D, at D = I.

    ``members`` y as (n + .., N): gradients by autograd; Fisher: half the trace of S^-1 dS S^-1 dS. The block between v
    and D is kept up to the paper's factor alpha, which is 1 where the matrix is far from singular.
    """
    n = len(v)

    def covariance(x: torch.Tensor) -> torch.Tensor:
        u, d = x[:n], torch.exp(x[n:])
        return d[:, None] * (torch.eye(n, dtype=x.dtype) + u[:, None] * u) * d

    point = torch.cat([torch.from_numpy(v), torch.zeros(n, dtype=torch.float64)])
    jacobian = torch.autograd.functional.jacobian(covariance, point).permute(2, 0, 1).numpy()  # (2 n, n, n)
    inverse = np.linalg.inv(np.eye(n) + np.outer(v, v))
    parts = np.einsum("ab,kbc->kac", inverse, jacobian)
    fisher = 0.5 * np.einsum("kab,lba->kl", parts, parts)
    outer = np.einsum("i,ia,ib->ab", weights, members, members) - weights.sum() * (np.eye(n) + np.outer(v, v))
    gradient = 0.5 * np.einsum("kab,bc,cd,da->k", jacobian, inverse, outer, inverse)
    alpha = _damping(v)
    fisher[:n, n:] *= alpha
    fisher[n:, :n] *= alpha
    natural = np.linalg.solve(fisher, gradient)
    return natural[:n], natural[n:]


def _damping(v: np.ndarray) -> float:
    """alpha of Akimoto et al. 2014: it shrinks the block of v and D so that the matrix is safely positive."""
    square, u = v @ v, v / np.linalg.norm(v)
    gamma = 1 + square
    return min(1.0, math.sqrt(square**2 + (2 * gamma - math.sqrt(gamma)) / (u**2).max()) / (2 + square))


def xnes(noise: np.ndarray, sigma: float) -> np.ndarray:
    """Centres by algorithm 5 of Wierstra et al. 2014, with the exponential of a symmetric matrix by its eigenvalues."""
    n, size = N, POPULATION
    m, b, found = np.ones(n), np.eye(n), []
    rate = (9 + 3 * math.log(n)) / (5 * n * math.sqrt(n))
    utilities = np.maximum(0, np.log(size / 2 + 1) - np.log(np.arange(1, size + 1)))
    utilities = utilities / utilities.sum() - 1 / size
    for z in noise.astype(np.float64):
        order = np.argsort(-ellipsoid(m + sigma * z @ b.T))
        by_m = utilities @ z[order]
        by_form = sum(u * (np.outer(row, row) - np.eye(n)) for u, row in zip(utilities, z[order], strict=True))
        by_sigma = np.trace(by_form) / n
        m = m + sigma * b @ by_m
        sigma *= math.exp(rate / 2 * by_sigma)
        values, vectors = np.linalg.eigh(rate / 2 * (by_form - by_sigma * np.eye(n)))
        b = b @ vectors @ np.diag(np.exp(values)) @ vectors.T
        found.append(m)
    return np.array(found)


def cma_es(noise: np.ndarray, sigma: float) -> list[np.ndarray]:
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
    mean, c, p_s, p_c, found = np.ones(n), np.eye(n), np.zeros(n), np.zeros(n), []
    for generation, z in enumerate(noise):
        values, b = np.linalg.eigh(c)
        root = b @ np.diag(np.sqrt(values)) @ b.T
        y = z @ root.T
        order = np.argsort(-ellipsoid(mean + sigma * y))
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


def sep_cma_es(noise: np.ndarray, sigma: float) -> list[np.ndarray]:
    """Centres after every generation by the equations of pycma's diagonal, written a second time."""
    n, size = N, len(noise[0])
    w = np.array([np.log((size + 1) / 2) - np.log(i + 1) for i in range(size)])
    mu_eff, mu_minus = (x.sum() ** 2 / (x**2).sum() for x in (w[w > 0], w[w < 0]))
    c_1 = 1 / (n + 2 * math.sqrt(n) + mu_eff / n)
    c_mu = (0.25 + mu_eff + 1 / mu_eff - 2) / (n + 4 * math.sqrt(n) + mu_eff / 2)
    alpha = min(1 + c_1 / c_mu, 1 + 2 * mu_minus / (mu_eff + 2))
    w = np.where(w > 0, w / w[w > 0].sum(), alpha * w / -w[w < 0].sum())
    c_c = (1 + 1 / n + mu_eff / n) / (math.sqrt(n) + 1 / n + 2 * mu_eff / n)
    c_sigma = (mu_eff + 2) / (n + mu_eff + 3)
    d_sigma = 1 + 2 * max(0, 3 * (1 - 0.5 ** (n / 9)) * math.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma
    chi = math.sqrt(2) * math.gamma((n + 1) / 2) / math.gamma(n / 2)
    mean, scale, p_sigma, p_c, found = np.ones(n), np.ones(n), np.zeros(n), np.zeros(n), []
    for generation, z in enumerate(noise):
        z = z[np.argsort(-ellipsoid(mean + sigma * scale * z))]
        z_w = w[w > 0] @ z[w > 0]
        mean = mean + sigma * scale * z_w
        p_sigma = (1 - c_sigma) * p_sigma + math.sqrt(c_sigma * (2 - c_sigma) * mu_eff) * z_w
        h = p_sigma @ p_sigma / (1 - (1 - c_sigma) ** (2 * (generation + 1))) / n < 2 + 4 / (n + 1)
        p_c = (1 - c_c) * p_c + h * math.sqrt(c_c * (2 - c_c) * mu_eff) * z_w
        one = c_1 * (1 - (1 - h) * c_c * (2 - c_c))
        scale = scale * 2 ** ((one * (p_c**2 - 1) + c_mu * (w @ (z**2 - 1))) / 2)
        sigma *= math.exp(c_sigma / d_sigma * (np.linalg.norm(p_sigma) / chi - 1))
        found.append(mean)
    return found


def direction() -> np.ndarray:
    """The v that CR-FM-NES starts with."""
    return started(CRFMNES(0.5), ONES, POPULATION).state().tensors["v"].numpy()


@pytest.mark.parametrize(
    ("kind", "equations", "mirrored"),
    [
        (CRFMNES, lambda noise, sigma: cr_fm_nes(direction(), noise, sigma), True),
        *((XNES, xnes, mirrored) for mirrored in (False, True)),
        (CMAES, cma_es, False),
        (SepCMAES, sep_cma_es, False),
    ],
)
def test_an_algorithm_is_the_published_one(kind: type, equations: Callable, mirrored: bool):
    found = centres(kind(0.5), ellipsoid, GENERATIONS, POPULATION, ONES.double(), mirrored)
    np.testing.assert_allclose(found, equations(noise(mirrored), 0.5), rtol=0, atol=1e-6)
    assert ellipsoid(found[-1:])[0] > 0.05 * ellipsoid(np.ones((1, N)))[0]


@pytest.mark.parametrize("n", [5, 600, 1000, 11_274, 3_000_000])
def test_the_solved_constant_of_cr_fm_nes_fits_networks_of_any_size(n):
    a = inverse_of_h(n)
    assert (1 + a * a) * math.exp(a * a / 2) / 0.24 - 10 == pytest.approx(n, rel=1e-12)


def test_cr_fm_nes_is_its_authors_package(monkeypatch):
    package = pytest.importorskip("crfmnes.alg", reason="pip install crfmnes")
    found = centres(CRFMNES(0.5), ellipsoid, GENERATIONS, POPULATION, ONES.double())
    theirs = package.CRFMNES(N, lambda x: -float(ellipsoid(x.T)[0]), np.ones((N, 1)), 0.5, POPULATION, v=direction()[:, None])
    for drawn, centre in zip(noise(), found, strict=True):
        monkeypatch.setattr(np.random, "randn", lambda *_, drawn=drawn: drawn[0::2].T)
        theirs.one_iteration()
        np.testing.assert_allclose(centre, theirs.m[:, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [CMAES, SepCMAES])
def test_every_generation_is_pycmas(kind):
    cma = pytest.importorskip("cma")
    diagonal = kind is SepCMAES
    es = cma.CMAEvolutionStrategy(np.ones(N), 0.5, {"popsize": POPULATION, "verbose": -9, "seed": 3, "CMA_diagonal": diagonal})
    if not diagonal:
        es.sm.C, es.sm.D, es.sm.B = np.eye(N), np.ones(N), np.eye(N)  # which it begins with, but for 0.0001 against equal values
    algo = started(kind(0.5), ONES.double(), POPULATION, mirrored=False)
    for generation in range(GENERATIONS):
        points = np.array(es.ask())
        steps = points - algo.centre.numpy()
        scaled = steps / algo.ask(generation).scale.numpy()
        told(algo, generation, scaled if diagonal else np.linalg.solve(algo._form.numpy(), scaled.T).T, ellipsoid(points))
        es.tell(list(points), -ellipsoid(points))
        assert algo._size == pytest.approx(es.sigma, rel=1e-7)
        np.testing.assert_allclose(algo.centre.numpy(), es.mean, rtol=1e-6, atol=1e-9)
        if diagonal:
            np.testing.assert_allclose(algo.ask(generation).scale.numpy(), es.sigma * es.sigma_vec.scaling, rtol=1e-6)
        else:
            np.testing.assert_allclose(algo._covariance.numpy(), es.sm.C, rtol=1e-6, atol=1e-7)
    assert algo.condition(GENERATIONS) > 4, "it has learnt"


def test_every_generation_of_xnes_is_that_of_the_package_cmaes():
    package = pytest.importorskip("cmaes")
    found = centres(XNES(0.5), ellipsoid, GENERATIONS, POPULATION, ONES.double(), mirrored=False)
    theirs = package.XNES(np.ones(N), 0.5, population_size=POPULATION)
    for drawn, centre in zip(noise(mirrored=False), found, strict=True):
        rows = iter(drawn)
        theirs._rng = SimpleNamespace(randn=lambda _, rows=rows: next(rows))
        points = [theirs.ask() for _ in range(POPULATION)]
        theirs.tell(list(zip(points, -ellipsoid(np.array(points)), strict=True)))
        np.testing.assert_allclose(centre, theirs._mean, rtol=0, atol=1e-6)


def test_the_form_of_xnes_has_the_digits_of_float64():
    """Of a step with norm 0.049, where torch.linalg.matrix_exp errs by 1e-12 (findings/torch_matrix_exp.sh)."""
    drawn = noise(mirrored=False)[0].astype(np.float64)
    utilities = nes_utilities(ellipsoid(1 + 0.5 * drawn)) / POPULATION
    by_form = (drawn.T * utilities) @ drawn
    by_form -= np.trace(by_form) / N * np.eye(N)
    half = 0.049 / np.abs(by_form).sum(0).max()
    algo = started(XNES(0.5, covariance_rate=2 * half), ONES, POPULATION)
    told(algo, 0, drawn.astype(np.float32), ellipsoid)
    values, axes = np.linalg.eigh(half * by_form)
    np.testing.assert_allclose(algo._form.numpy(), axes * np.exp(values) @ axes.T, rtol=0, atol=2e-14)


def test_namesakes_move_on_equal_fitnesses():
    """The table of docs/explanation/algorithms.md; tests/algo/test_ties.py shows that ours stay."""
    pycma, package = pytest.importorskip("cma"), pytest.importorskip("cmaes")
    full = pycma.CMAEvolutionStrategy(np.zeros(10), 1.0, {"verbose": -9, "seed": 3})
    full.tell(full.ask(), [7.0] * full.popsize)
    assert np.linalg.norm(full.mean) > 1
    for kind in (package.CMA, package.SepCMA, package.XNES):
        one = kind(np.zeros(10), 1.0, seed=3)
        one.tell([(one.ask(), 7.0) for _ in range(one.population_size)])
        assert np.linalg.norm(one._mean) > 0.5


def test_the_state_of_cma_es_is_exact_between_decompositions():
    algo, again = (started(CMAES(0.5), ONES, POPULATION) for _ in range(2))
    algo._gap = again._gap = 4.0
    for generation, drawn in enumerate(noise()[:9]):
        told(algo, generation, drawn, ellipsoid)
        if generation == 5:  # between two
            again.restore(algo.state())
        elif generation > 5:
            told(again, generation, drawn, ellipsoid)
    assert torch.equal(again.centre, algo.centre)
    assert torch.equal(again._covariance, algo._covariance)


def test_members_are_scored_where_they_are_said_to_be():
    """By a fitness function and by ask and tell: the same numbers, so the transform serves single members of a module too."""
    centres = []
    for asks in (True, False):
        algo = option("algo", "cr_fm_nes", PopulationAlgorithm, 3, {"sigma": 0.5})
        module = nn.Linear(N, 1, bias=False)
        nn.init.ones_(module.weight)
        with Evolution(module, algo=algo, population=POPULATION, threads=1) as es:
            for _ in range(3):
                if asks:
                    es.tell([-float(member.weight.square().sum()) for member in es.ask()])
                else:
                    es.step(lambda member: -float(member.weight.square().sum()))
            centres.append(es.centre.numpy())
    np.testing.assert_allclose(*centres, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "size", "population", "message"),
    [
        (XNES, 1025, 8, r"algo=xnes: its matrix serves at most 1,024 parameters, not 1,025; cr_fm_nes, sep_cma_es and snes"),
        (CRFMNES, 8, 2, r"population=2: algo=cr_fm_nes compares members of two pairs: at least 4"),
        (CRFMNES, 1, 8, r"model=1 parameters: algo=cr_fm_nes has no direction for fewer than 2"),
        (CMAES, 8, 3, "population=3: algo=cma_es takes the mean of the better half: at least 4"),
        (SepCMAES, 8, 3, "population=3: algo=sep_cma_es takes the mean of the better half: at least 4"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(kind, size, population, message):
    with pytest.raises(ConfigError, match=message):
        kind().start(torch.zeros(size), layout_of(size), population, 1)
