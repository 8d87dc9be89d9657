"""CR-FM-NES, xNES, CMA-ES and sep-CMA-ES against packages of others, generation by generation, and what they refuse."""

import math
from types import SimpleNamespace

import cma
import cmaes
import crfmnes.alg
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


def direction() -> np.ndarray:
    """The v that CR-FM-NES starts with."""
    return started(CRFMNES(0.5), ONES, POPULATION).state().tensors["v"].numpy()


@pytest.mark.parametrize("n", [5, 600, 1000, 11_274, 3_000_000])
def test_the_solved_constant_of_cr_fm_nes_fits_networks_of_any_size(n):
    a = inverse_of_h(n)
    assert (1 + a * a) * math.exp(a * a / 2) / 0.24 - 10 == pytest.approx(n, rel=1e-12)


def test_cr_fm_nes_is_its_authors_package(monkeypatch):
    found = centres(CRFMNES(0.5), ellipsoid, GENERATIONS, POPULATION, ONES.double())
    theirs = crfmnes.alg.CRFMNES(N, lambda x: -float(ellipsoid(x.T)[0]), np.ones((N, 1)), 0.5, POPULATION, v=direction()[:, None])
    for drawn, centre in zip(noise(), found, strict=True):
        monkeypatch.setattr(np.random, "randn", lambda *_, drawn=drawn: drawn[0::2].T)
        theirs.one_iteration()
        np.testing.assert_allclose(centre, theirs.m[:, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [CMAES, SepCMAES])
def test_every_generation_is_pycmas(kind):
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


@pytest.mark.parametrize("mirrored", [False, True])
def test_every_generation_of_xnes_is_that_of_the_package_cmaes(mirrored):
    found = centres(XNES(0.5), ellipsoid, GENERATIONS, POPULATION, ONES.double(), mirrored)
    theirs = cmaes.XNES(np.ones(N), 0.5, population_size=POPULATION)
    for drawn, centre in zip(noise(mirrored), found, strict=True):
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
    full = cma.CMAEvolutionStrategy(np.zeros(10), 1.0, {"verbose": -9, "seed": 3})
    full.tell(full.ask(), [7.0] * full.popsize)
    assert np.linalg.norm(full.mean) > 1
    for kind in (cmaes.CMA, cmaes.SepCMA, cmaes.XNES):
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
