"""Fitness shaping against its formulas, and what does not depend on scale or order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuro_cli.core.shaping import (
    PAIR_SHAPINGS,
    SHAPINGS,
    centred,
    centred_rank,
    nes_utilities,
    of_top_pairs,
    pair_rank,
    pair_rank_cubed,
    pair_z_score,
    ranks,
    z_score,
)

fitnesses = st.lists(st.integers(-20, 20), min_size=2, max_size=30).map(lambda values: np.array(values, float))


@given(fitnesses)
def test_every_shaping_keeps_order_and_ties_and_commutes_with_permutations(fitness):
    order = np.random.default_rng(0).permutation(len(fitness))
    for shape in SHAPINGS.values():
        utilities = shape(fitness)
        assert utilities.shape == fitness.shape
        np.testing.assert_allclose(shape(fitness[order]), utilities[order], atol=1e-12)
        for i in range(len(fitness)):
            for j in range(len(fitness)):
                if fitness[i] == fitness[j]:
                    assert utilities[i] == pytest.approx(utilities[j], abs=1e-12)
                elif fitness[i] > fitness[j]:
                    assert utilities[i] >= utilities[j]


@given(fitnesses)
def test_ranks_count_the_worse_and_half_of_the_equal(fitness):
    expected = [(fitness < value).sum() + ((fitness == value).sum() - 1) / 2 for value in fitness]
    np.testing.assert_array_equal(ranks(fitness), expected)


@given(fitnesses)
def test_centred_shapings_sum_to_zero(fitness):
    for shape in (centred_rank, nes_utilities, z_score, centred):
        assert abs(shape(fitness).sum()) < 1e-9


def test_nes_utilities_are_the_published_ones_times_population():
    population = 6
    weights = [max(0.0, np.log(population / 2 + 1) - np.log(k)) for k in range(1, population + 1)]  # best first
    published = np.array(weights) / sum(weights) - 1 / population
    best_first = np.arange(population, 0, -1).astype(float)
    np.testing.assert_allclose(nes_utilities(best_first) / population, published, atol=1e-15)


@pytest.mark.parametrize(("members", "value"), [(4, 2.5), (50, 0.1), (50, 0.3), (1000, 0.3)])
def test_equal_fitnesses_move_nothing_where_their_mean_is_rounded(members, value):
    for shape in (centred_rank, z_score, centred, pair_z_score):
        assert not shape(np.full(members, value)).any()


@given(fitnesses.filter(lambda values: len(values) % 2 == 0))
def test_pair_shapings_compare_a_pair_with_itself_only(fitness):
    harder = fitness + np.repeat(np.random.default_rng(0).normal(0, 50, len(fitness) // 2), 2).round()
    for shape in PAIR_SHAPINGS.values():
        utilities = shape(fitness)
        np.testing.assert_allclose(shape(harder), utilities, atol=1e-9)  # what both sides have in common drops out
        np.testing.assert_allclose(utilities[0::2], -utilities[1::2])
        assert (np.sign(utilities[0::2]) == np.sign(fitness[0::2] - fitness[1::2])).all()
        sizes = np.abs(fitness[0::2] - fitness[1::2])
        order = np.argsort(sizes)
        assert (np.diff(np.abs(utilities[0::2])[order]) >= -1e-12).all()


def test_differences_that_tie_but_for_rounding_share_a_rank():
    hundredths = np.array([37, 36, 2, 1, 51, 50, 98, 99, 7, 7, 12, 15])  # 0.37 - 0.36 is not 0.02 - 0.01
    for fitness in (hundredths / 100, hundredths / 100 + 3, hundredths / 10 + 10_000):
        for shape in (pair_rank, pair_rank_cubed):
            np.testing.assert_array_equal(shape(fitness), shape(hundredths.astype(float)))


def test_a_member_that_diverges_joins_no_other_pairs_ranks():
    fitness = np.array([3.0, 1.0, 0.0, 4.0, 5.0, 4.0, 0.0, -1e18])
    np.testing.assert_array_equal(pair_rank(fitness)[0::2], [2 / 8, -3 / 8, 1 / 8, 4 / 8])


def test_pair_shapings_by_hand():
    fitness = np.array([3.0, 1.0, 0.0, 4.0, 5.0, 5.0])
    np.testing.assert_allclose(pair_rank(fitness)[0::2], [2 / 6, -3 / 6, 0.0])
    np.testing.assert_allclose(pair_rank_cubed(fitness)[0::2], [8 / 54, -27 / 54, 0.0])
    np.testing.assert_allclose(pair_z_score(fitness)[0::2], np.array([1.0, -2.0, 0.0]) / (5 / 3) ** 0.5)


def test_the_top_share_of_pairs_is_shaped_by_itself():
    """Algorithm 2 of Mania et al. 2018: pairs are sorted by max(F+, F-), and the best b of them count, with a mean over b."""
    fitness = np.array([3.0, 1.0, 0.0, 4.0, 5.0, 5.0, -9.0, 2.0])
    two = np.array([0.0, 4.0, 5.0, 5.0])  # better sides 4 and 5; the largest difference is in the pair with 2
    for shape in PAIR_SHAPINGS.values():
        np.testing.assert_array_equal(of_top_pairs(fitness, 0.5, shape), [0, 0, *(2 * shape(two)), 0, 0])
        np.testing.assert_array_equal(of_top_pairs(fitness, 0.26, shape), of_top_pairs(fitness, 0.5, shape))
        np.testing.assert_array_equal(of_top_pairs(fitness, 1.0, shape), shape(fitness))
        np.testing.assert_array_equal(of_top_pairs(fitness, 0.01, shape), np.zeros(8))  # both sides of the best are equal


@given(fitnesses.filter(lambda values: len(values) % 2 == 0), st.floats(0.01, 1.0))
def test_the_top_pairs_do_not_depend_on_the_order_in_which_ties_come(fitness, share):
    pairs = np.random.default_rng(0).permutation(len(fitness) // 2)
    order = np.stack([2 * pairs, 2 * pairs + 1], axis=1).ravel()
    for shape in PAIR_SHAPINGS.values():
        utilities = of_top_pairs(fitness, share, shape)
        np.testing.assert_allclose(of_top_pairs(fitness[order], share, shape), utilities[order], atol=1e-12)
        counts, better = utilities[0::2] != 0, np.maximum(fitness[0::2], fitness[1::2])
        if counts.any():  # a pair left out has equal sides or a better side below all that count
            left_out = ~counts & (fitness[0::2] != fitness[1::2])
            assert not left_out.any() or better[left_out].max() < better[counts].min()
