"""Step size and learning rate that adapt: the published rules, landscapes, the same bits on any ranks and after a resume."""

import math
from functools import partial
from threading import Lock

import numpy as np
import pytest
import torch
from support.thread_ranks import on_ranks
from torch import nn

from neuro_cli import Evolution
from neuro_cli.algo.adapt import Adaptation
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.core.errors import ConfigError
from neuro_cli.library.named import option

N, POPULATION = 10, 20
SGD = partial(torch.optim.SGD, lr=0.05)


def sphere(points: np.ndarray) -> np.ndarray:
    return -(points**2).sum(1)


def trained(
    adapt: dict, generations: int, noise: float = 0.0, resumed_at: int | None = None, mirrored: bool = True, optimizer=SGD
) -> tuple[Evolution, list[float], list[float]]:
    """A run on the sphere from 1 in every dimension, with its sigmas and rates; ``noise``: deviation of a fitness."""

    def made() -> Evolution:
        algo = OpenAIES(0.1, optimizer, adapt=adapt)
        sampler = "antithetic" if mirrored else "iid"
        return Evolution(torch.ones(N), algo=algo, sampler=sampler, population=POPULATION, threads=1)

    es, sigmas, rates = made(), [], []
    for generation in range(generations):
        if generation == resumed_at:
            state, es = es.state_dict(), made()
            es.load_state_dict(state)
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


@pytest.mark.parametrize("adapt", [{"sigma": "csa"}, {"sigma": "psr"}, {"lr": "snr"}, {"sigma": "csa", "lr": "snr"}])
def test_a_resume_goes_on_to_the_same_bits(adapt):
    adam = partial(torch.optim.Adam, lr=0.05)
    whole, halved = trained(adapt, 12, optimizer=adam), trained(adapt, 12, resumed_at=5, optimizer=adam)
    assert torch.equal(whole[0].centre, halved[0].centre)
    assert whole[1:] == halved[1:]
    assert len({*whole[1], *whole[2]}) > 3, "it adapted"


ONE_AT_A_TIME = Lock()  # ranks are threads here, and torch has one stream of random numbers for all of them


def centre_of(world, adapt: dict, method: str) -> np.ndarray:
    with ONE_AT_A_TIME:
        torch.manual_seed(1)
        module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    inputs = torch.randn(10, 3, generator=torch.Generator().manual_seed(1))
    algo = option("algo", "openai_es", PopulationAlgorithm, 5, {"adapt": adapt})
    with Evolution(module, algo=algo, distribution=method, population=10, world=world, threads=1) as es:
        for _ in range(5):
            es.step(lambda member, x, y: -((member(x) - y) ** 2).sum(1), inputs, inputs[:, :2])
        return es.centre.numpy()


@pytest.mark.parametrize("adapt", [{"sigma": "csa", "lr": "snr"}, {"sigma": "psr", "lr": "none"}])
def test_any_number_of_ranks_gives_the_same_bits(adapt):
    [whole] = on_ranks(1, partial(centre_of, adapt=adapt, method="replicated"))
    [plain] = on_ranks(1, partial(centre_of, adapt={}, method="replicated"))
    assert not np.array_equal(whole, plain)
    for method in ("replicated", "chromosome_updates"):
        assert all(np.array_equal(centre, whole) for centre in on_ranks(3, partial(centre_of, adapt=adapt, method=method)))
    for centre in on_ranks(3, partial(centre_of, adapt=adapt, method="semi_updates")):
        np.testing.assert_allclose(centre, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("adapt", "message"),
    [
        ({"sigma": "cma"}, r"algo\.adapt\.sigma=cma: must be one of none, csa, psr"),
        ({"lr": "csa"}, r"algo\.adapt\.lr=csa: must be one of none, snr"),
        ({"rate": "snr"}, r"algo\.adapt\.rate=snr: must be sigma or lr"),
        ("csa", r"algo\.adapt=csa: must be \{sigma:"),
    ],
)
def test_other_rules_are_refused(adapt, message):
    with pytest.raises(ConfigError, match=message):
        OpenAIES(adapt=adapt)


def test_what_needs_the_whole_population_refuses_parts_of_it():
    assert OpenAIES().can_shape_parts()
    assert not OpenAIES(adapt={"lr": "snr"}).can_shape_parts()
    assert OpenAIES(adapt={"lr": "snr"}).needs_parameters is None
    assert "adapts sigma by algo.adapt.sigma=csa" in str(OpenAIES(adapt={"sigma": "csa"}).needs_parameters)
