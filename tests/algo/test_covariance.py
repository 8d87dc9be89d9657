"""CR-FM-NES and xNES against their equations, written a second time, and their authors' package where it is installed."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.thread_ranks import on_ranks
from torch import nn

from neuro_cli import Evolution
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.algo.cr_fm_nes import CRFMNES, inverse_of_h
from neuro_cli.algo.xnes import XNES
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.library.named import option

N, POPULATION = 8, 12


def layout_of(size: int) -> ParameterLayout:
    return ParameterLayout(nn.Linear(size, 1, bias=False))


def ellipsoid(points: np.ndarray) -> np.ndarray:
    """Negative quadratic, condition number 1,000, with its axes turned; best value 0 at the origin."""
    turn, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((N, N)))
    return -(1000 ** (np.arange(N) / (N - 1)) * (points @ turn) ** 2).sum(axis=1)


def noise_of(generations: int, mirrored: bool) -> np.ndarray:
    """(G, P, N) float32; in pairs (2j, 2j + 1) where they are mirrored."""
    drawn = np.random.default_rng(7).standard_normal((generations, POPULATION, N)).astype(np.float32)
    if mirrored:
        drawn[:, 1::2] = -drawn[:, 0::2]
    return drawn


def trained(algo: PopulationAlgorithm, noise: np.ndarray, state_at: int | None = None) -> np.ndarray:
    """Centres (G, N); ``state_at``: the generation in which a new algorithm goes on from the state."""
    made, kept = algo, []
    made.start(torch.ones(N), layout_of(N), POPULATION, 3)
    for generation, drawn in enumerate(noise):
        if generation == state_at:
            state = made.state()
            made = type(algo)(0.5)
            made.start(torch.zeros(N), layout_of(N), POPULATION, 3)
            made.restore(state)
        proposal, rows = made.ask(generation), torch.from_numpy(drawn)
        points = torch.stack([proposal.bases[0] + proposal.scale * row for row in proposal.transform(rows)])
        if made.probe is not None:
            made.probed(np.linalg.norm(drawn, axis=1), drawn.astype(np.float64) @ made.probe.numpy())
        wanted = made.combination(generation, ellipsoid(points.double().numpy()))
        moments = {1: drawn.astype(np.float64), 2: drawn.astype(np.float64) ** 2 - 1}
        sums = np.stack([w @ moments[moment] for w, moment in zip(wanted.weights, wanted.moments, strict=True)])
        made.tell(generation, torch.from_numpy(sums).float())
        kept.append(made.centre.double().numpy().copy())
    return np.array(kept)


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


def test_cr_fm_nes_is_the_paper_with_a_solved_fisher_matrix():
    noise, algo = noise_of(60, mirrored=True), CRFMNES(0.5)
    found = trained(algo, noise)
    algo.start(torch.ones(N), layout_of(N), POPULATION, 3)
    expected = cr_fm_nes(algo.state().tensors["v"].numpy(), noise, 0.5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4)
    assert ellipsoid(found[-1:])[0] > 0.05 * ellipsoid(np.ones((1, N)))[0]


@pytest.mark.parametrize("n", [5, 600, 1000, 11_274, 3_000_000])
def test_the_solved_constant_of_cr_fm_nes_fits_networks_of_any_size(n):
    a = inverse_of_h(n)
    assert (1 + a * a) * math.exp(a * a / 2) / 0.24 - 10 == pytest.approx(n, rel=1e-12)


def test_cr_fm_nes_is_its_authors_package(monkeypatch):
    package = pytest.importorskip("crfmnes.alg", reason="pip install crfmnes")
    noise, algo = noise_of(60, mirrored=True), CRFMNES(0.5)
    found = trained(algo, noise)
    algo.start(torch.ones(N), layout_of(N), POPULATION, 3)
    theirs = package.CRFMNES(
        N, lambda x: -float(ellipsoid(x.T)[0]), np.ones((N, 1)), 0.5, POPULATION, v=algo.state().tensors["v"].numpy()[:, None]
    )
    for drawn, centre in zip(noise, found, strict=True):
        monkeypatch.setattr(np.random, "randn", lambda *_, drawn=drawn: drawn[0::2].T.astype(np.float64))
        theirs.one_iteration()
        np.testing.assert_allclose(centre, theirs.m[:, 0], rtol=0, atol=2e-4)


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


def test_every_generation_of_xnes_is_that_of_the_package_cmaes():
    package = pytest.importorskip("cmaes")
    noise = noise_of(60, mirrored=False)
    found, theirs = trained(XNES(0.5), noise), package.XNES(np.ones(N), 0.5, population_size=POPULATION)
    for drawn, centre in zip(noise, found, strict=True):
        rows = iter(drawn.astype(np.float64))
        theirs._rng = SimpleNamespace(randn=lambda _, rows=rows: next(rows))
        points = [theirs.ask() for _ in range(POPULATION)]
        theirs.tell(list(zip(points, -ellipsoid(np.array(points)), strict=True)))
        np.testing.assert_allclose(centre, theirs._mean, rtol=0, atol=2e-4)


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


@pytest.mark.parametrize("parameters", [5, 2_019, 2_020, 10**6])
def test_cr_fm_nes_has_its_constant_for_any_number_of_parameters(parameters):
    a = inverse_of_h(parameters)
    assert (1 + a * a) * math.exp(a * a / 2) / 0.24 - 10 == pytest.approx(parameters, rel=1e-9)


@pytest.mark.parametrize("mirrored", [False, True])
def test_xnes_is_the_published_algorithm(mirrored):
    noise = noise_of(60, mirrored)
    found = trained(XNES(0.5), noise)
    np.testing.assert_allclose(found, xnes(noise, 0.5), rtol=0, atol=2e-4)
    assert ellipsoid(found[-1:])[0] > 0.05 * ellipsoid(np.ones((1, N)))[0]


@pytest.mark.parametrize("kind", [CRFMNES, XNES])
def test_a_state_goes_on_to_the_same_bits(kind):
    noise = noise_of(12, mirrored=True)
    assert np.array_equal(trained(kind(0.5), noise), trained(kind(0.5), noise, state_at=5))


def centre_of(world, algo: str, method: str) -> np.ndarray:
    made = option("algo", algo, PopulationAlgorithm, 6, {"sigma": 0.5})
    with Evolution(torch.ones(N), algo=made, distribution=method, population=POPULATION, world=world, threads=1) as es:
        for _ in range(6):
            es.tell(ellipsoid(es.ask().vectors.double().numpy()))
        return es.centre.numpy()


@pytest.mark.parametrize("algo", ["cr_fm_nes", "xnes", "cma_es"])
def test_any_number_of_ranks_gives_the_same_bits(algo):
    [whole] = on_ranks(1, partial(centre_of, algo=algo, method="replicated"))
    assert ellipsoid(whole[None].astype(np.float64))[0] > ellipsoid(np.ones((1, N)))[0]
    for method in ("replicated", "chromosome_updates"):
        assert all(np.array_equal(centre, whole) for centre in on_ranks(3, partial(centre_of, algo=algo, method=method)))
    for centre in on_ranks(3, partial(centre_of, algo=algo, method="semi_updates")):
        np.testing.assert_allclose(centre, whole, rtol=1e-4, atol=1e-5)


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
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(kind, size, population, message):
    with pytest.raises(ConfigError, match=message):
        kind().start(torch.zeros(size), layout_of(size), population, 1)
