"""Equal fitnesses: the order of members does not matter, and where all are equal nothing is learnt."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from algo_lab import layout_of, noise_of, started, told
from support.configs import ALGOS

from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.algo.genetic import Genetic
from neuro_cli.core.shaping import PAIR_SHAPINGS, SHAPINGS, by_rank
from neuro_cli.library.named import option
from neuro_cli.selection.base import Scores
from neuro_cli.selection.linear_combination import LinearCombination

N, POPULATION = 8, 12
RANKED = [name for name in ALGOS if name != "genetic"]
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in RANKED),
    *(("ars", {"top": top}) for top in (1, 2, 3, 5)),
    *(("openai_es", {"shaping": shaping}) for shaping in (SHAPINGS | PAIR_SHAPINGS)),
]


def made(algo: str, values: dict[str, Any]) -> PopulationAlgorithm:
    return started(option("algo", algo, PopulationAlgorithm, 9, values), torch.linspace(-1, 1, N), POPULATION)


@pytest.mark.parametrize(("algo", "values"), CASES)
def test_the_order_of_members_does_not_matter(algo, values):
    """Directions in another order, and the sides of half of them exchanged; of twelve fitnesses two or three differ."""
    generator = np.random.default_rng(5)
    first, second = made(algo, values), made(algo, values)
    for generation in range(6):
        noise, fitness = (
            noise_of(generation, POPULATION, N),
            generator.integers(0, 2 + generation % 2, POPULATION).astype(np.float64),
        )
        places = generator.permutation(POPULATION // 2)[:, None] * 2 + np.array([0, 1])
        places[::2] = places[::2, ::-1]
        order = places.ravel()
        told(first, generation, noise, fitness)
        told(second, generation, noise[order], fitness[order])
    torch.testing.assert_close(second.centre, first.centre, rtol=1e-4, atol=1e-5)
    assert torch.equal(first.centre, torch.linspace(-1, 1, N)) == first.votes
    assert second.sigma_at(6) == pytest.approx(first.sigma_at(6), rel=1e-5)


BY_PAIRS = ("ars", "cr_fm_nes", "pgpe", "forward_gradient")  # or by value: one sided noise has a mean


@pytest.mark.parametrize(
    ("algo", "mirrored"), [(name, True) for name in ALGOS] + [(n, False) for n in ALGOS if n not in BY_PAIRS]
)
def test_a_generation_of_equals_moves_nothing(algo, mirrored):
    still = made(algo, {})
    before = still.sigma_at(0)
    for generation in range(4):
        told(still, generation, noise_of(generation, POPULATION, N, mirrored), np.full(POPULATION, 7.25))
    torch.testing.assert_close(still.centre, torch.linspace(-1, 1, N), rtol=0, atol=1e-6)
    assert still.sigma_at(0) == pytest.approx(before, rel=1e-6)


def test_utilities_of_ranks_are_shared():
    assert by_rank(np.array([3.0, 1.0, 1.0, 2.0]), np.array([0, 1, 2, 6])).tolist() == [6.0, 0.5, 0.5, 2.0]
    assert by_rank(np.full(4, 2.0), np.array([0.0, 1.0, 2.0, 6.0])).tolist() == [2.25] * 4


def test_lots_decide_among_equal_parents_and_the_best_one_stays():
    algo, taken = Genetic(parents=4), Counter[int]()
    algo.start(torch.zeros(N), layout_of(N), POPULATION, 3)
    for generation in range(2000):
        rows = algo.combination(generation, np.full(POPULATION, 1.0)).weights
        assert not rows[0].any()  # of member 0, which is the best parent unchanged
        taken.update(np.flatnonzero(rows.sum(0)).tolist())
    assert set(taken) == set(range(1, POPULATION))
    counts, expected = np.array(list(taken.values())), 2000 * 3 / (POPULATION - 1)
    assert np.abs(counts - expected).max() < 5 * expected**0.5
    best = algo.combination(0, np.arange(POPULATION, dtype=np.float64)).weights
    assert best.argmax(1).tolist() == [11, 10, 9, 8]


def test_the_last_places_of_a_selection_are_shared():
    selection = LinearCombination(1.0, "centred_rank", top_k=2)
    (chosen,) = selection.choose([Scores(0, 10, np.array([0.0, 1.0, 5.0, 3.0, 3.0]))], 1.0)
    assert chosen.first == 12
    np.testing.assert_allclose(chosen.coefficients, [0.5 / 5, 0.5 * 0.125 / 5, 0.5 * 0.125 / 5])
