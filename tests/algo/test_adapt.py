"""Step size and learning rate that adapt: the published rules, and landscapes."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from neuro_cli import Evolution
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.algo.step_size.adapt import Adaptation

N, POPULATION = 10, 20


def sphere(points: np.ndarray) -> np.ndarray:
    return -(points**2).sum(1)


def trained(adapt: dict, generations: int, noise: float = 0.0) -> tuple[Evolution, list[float], list[float]]:
    """A run on the sphere from 1 in every dimension, with its sigmas and rates; ``noise``: deviation of a fitness."""
    algo = OpenAIES(0.1, partial(torch.optim.SGD, lr=0.05), adapt=adapt)
    es = Evolution(torch.ones(N), algo=algo, sampler="antithetic", population=POPULATION, threads=1)
    sigmas, rates = [], []
    for generation in range(generations):
        fitness = sphere(es.ask().vectors.double().numpy())
        sigmas.append(es._algo.sigma_at(generation))
        rates.append(es._algo.rate_at(generation))
        es.tell(fitness + noise * np.random.default_rng(generation).standard_normal(POPULATION))
    return es, sigmas, rates


@pytest.mark.parametrize("mirrored", [False, True])
def test_csa_is_the_tutorials_with_a_covariance_of_sigma_squared(mirrored):
    """Ten generations of random utilities, in float64 from equations 43 and 44."""
    adapt, random = Adaptation({"sigma": "csa"}), np.random.default_rng(4)
    adapt.start(torch.zeros(N), POPULATION)
    p, sigma = np.zeros(N), 1.0
    for _ in range(10):
        u, eps = random.standard_normal(POPULATION), random.standard_normal((POPULATION, N))
        if mirrored:
            eps[1::2] = -eps[0::2]
        chosen = np.maximum(u, 0) / np.maximum(u, 0).sum()
        mu_eff = 1 / (chosen**2).sum()
        c, chi = (mu_eff + 2) / (N + mu_eff + 5), math.sqrt(N) * (1 - 1 / (4 * N) + 1 / (21 * N * N))
        d = 1 + 2 * max(0, math.sqrt((mu_eff - 1) / (N + 1)) - 1) + c
        mass = ((u[0::2] - u[1::2]) ** 2).sum() if mirrored else (u**2).sum()  # squared weights of what is drawn
        p = (1 - c) * p + math.sqrt(c * (2 - c)) * (u @ eps) / math.sqrt(mass)
        sigma *= math.exp(min(1, c / d * (np.linalg.norm(p) / chi - 1)))
        adapt.meet(np.zeros(POPULATION), u, mirrored)
        adapt.learn(torch.from_numpy(u @ eps).float())
    assert adapt.sigma == pytest.approx(sigma, rel=1e-5)


def test_csa_keeps_sigma_where_utilities_say_nothing():
    """Mirrored or not: the path of a walk by chance has its expected length, but for its beginning: sigma does not drift."""
    for mirrored in (False, True):
        adapt, random, seen = Adaptation({"sigma": "csa"}), np.random.default_rng(1), []
        adapt.start(torch.zeros(2000), POPULATION)
        for _ in range(400):
            u = random.permutation(POPULATION) / (POPULATION - 1) - 0.5
            eps = random.standard_normal((POPULATION, 2000))
            if mirrored:
                eps[1::2] = -eps[0::2]
            adapt.meet(np.zeros(POPULATION), u, mirrored)
            adapt.learn(torch.from_numpy(u @ eps).float())
            seen.append(adapt.sigma)
        assert 0.6 < seen[-1] < 1.25  # with a norm that is wrong by sqrt(2) below 0.4, above 2


def test_psr_compares_the_ranks_of_two_generations():
    adapt = Adaptation({"sigma": "psr"})
    adapt.start(torch.zeros(2), 4)

    def learn(*fitness: float) -> float:
        adapt.meet(np.array(fitness), np.zeros(4), False)
        adapt.learn(torch.zeros(2))
        return adapt.sigma

    assert learn(1.0, 2.0, 3.0, 4.0) == 1.0  # nothing to compare with
    # ranks of the later ones 4 to 7, of the earlier ones 0 to 3: 16 of 16 comparisons are won
    s = 0.3 * (1 - 0.25)
    assert learn(5.0, 6.0, 7.0, 8.0) == pytest.approx(math.exp(s))
    s = 0.7 * s + 0.3 * (-1 - 0.25)
    assert learn(1.0, 2.0, 3.0, 4.0) == pytest.approx(math.exp(0.3 * 0.75) * math.exp(s))


def test_snr_is_the_published_rule():
    adapt, random = Adaptation({"lr": "snr"}), np.random.default_rng(4)
    adapt.start(torch.zeros(N), POPULATION)
    e, v, eta = np.zeros(N), 0.0, 1.0
    for _ in range(30):
        delta = random.standard_normal(N) + 0.5
        e, v = 0.9 * e + 0.1 * delta, 0.9 * v + 0.1 * (delta @ delta)
        snr = (e @ e - 0.1 / 1.9 * v) / (v - e @ e)
        eta = min(1.0, eta * math.exp(min(0.1 * eta, 0.1) * min(1.0, max(-1.0, snr / (1.4 * eta) - 1))))
        adapt.learn(torch.from_numpy(delta).float())
    assert adapt.rate == pytest.approx(eta, rel=1e-5)
    assert adapt.rate < 0.9


def test_csa_follows_the_sphere_to_its_optimum():
    """A constant sigma stands still at a distance of its own size; steps that go with sigma do not."""
    far = {
        name: abs(float(sphere(trained({"sigma": name}, 250)[0].centre.double().numpy()[None])[0])) for name in ("none", "csa")
    }
    assert far["csa"] < 1e-6
    assert far["csa"] < 1e-3 * far["none"]


def test_psr_shrinks_sigma_where_nothing_is_won():
    _, sigmas, _ = trained({"sigma": "psr"}, 250)
    assert sigmas[-1] < 1e-2 * max(sigmas)


def test_snr_lowers_the_rate_where_fitnesses_are_noise():
    clean, noisy = trained({"lr": "snr"}, 60)[2], trained({"lr": "snr"}, 60, noise=100.0)[2]
    assert noisy[-1] < 0.6 * clean[-1]
    assert noisy[-1] < 0.2 * noisy[0]


def test_what_needs_the_whole_population_refuses_parts_of_it():
    assert OpenAIES().can_shape_parts()
    assert not OpenAIES(adapt={"lr": "snr"}).can_shape_parts()
    assert OpenAIES(adapt={"lr": "snr"}).needs_parameters is None
    assert "adapts sigma by algo.adapt.sigma=csa" in str(OpenAIES(adapt={"sigma": "csa"}).needs_parameters)
