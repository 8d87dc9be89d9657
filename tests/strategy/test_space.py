"""How modules come from others."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.model.module_cnn import LAYERS
from neuro_cli.strategy.space import CROSSOVERS, UNIFORM, Space, crossed, crossed_uniformly

SPACE = Space(tuple(LAYERS), 5)
MODULES = st.lists(st.sampled_from(SPACE.layers), min_size=1, max_size=SPACE.longest).map(tuple)
SEEDS = st.integers(0, 2**63 - 1).map(np.random.default_rng)


@given(MODULES, SEEDS, st.floats(0, 1))
def test_mutation_appends_one_layer_or_nothing(module, rng, probability):
    assert SPACE.mutated(module, rng, 0.0) == module
    assert len(SPACE.mutated(module, rng, 1.0)) == min(len(module) + 1, SPACE.longest)
    child = SPACE.mutated(module, rng, probability)
    assert child[: len(module)] == module
    assert len(child) - len(module) in (0, 1)
    assert len(child) <= SPACE.longest
    assert set(child) <= set(SPACE.layers)


def of_length(length: int) -> st.SearchStrategy:
    return st.lists(st.sampled_from(SPACE.layers), min_size=length, max_size=length).map(tuple)


@given(st.data(), SEEDS, st.integers(0, 3))
def test_crossover_recombines_two_parents_each_split_at_one_place(data, rng, slack):
    first = data.draw(MODULES)
    second = data.draw(of_length(len(first)))
    longest = len(first) + slack
    children = crossed(first, second, rng, longest)
    assert sorted(children[0] + children[1]) == sorted(first + second)  # nothing is lost, nothing comes from elsewhere
    assert all(1 <= len(child) <= longest for child in children)
    assert children in recombined(first, second, longest)


def recombined(first: tuple[str, ...], second: tuple[str, ...], longest: int) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every outcome, by a list of all pairs of places."""
    if len(first) == 1:
        return {(first, second)}
    places = list(product(range(1, len(first)), repeat=2))
    pairs = {(first[:one] + second[other:], second[:other] + first[one:]) for one, other in places}
    return {pair for pair in pairs if max(map(len, pair)) <= longest}


@pytest.mark.parametrize("longest", [4, 5, 9])
def test_crossover_splits_at_any_two_places_that_the_maximum_allows(longest):
    first, second = tuple("abcd"), tuple("ABCD")
    found = {crossed(first, second, np.random.default_rng(seed), longest) for seed in range(300)}
    assert found == recombined(first, second, longest)
    assert len(found) == {4: 3, 5: 7, 9: 9}[longest]


@given(st.data(), SEEDS)
def test_uniform_crossover_takes_every_layer_from_the_same_place_of_either_parent(data, rng):
    first = data.draw(MODULES)
    second = data.draw(of_length(len(first)))
    child = crossed_uniformly(first, second, rng)
    assert len(child) == len(first)
    assert all(layer in pair for layer, pair in zip(child, zip(first, second, strict=True), strict=True))
    assert len({crossed_uniformly(("1x1",) * 2, ("5x5",) * 2, rng) for _ in range(99)}) == 2**2


@given(st.data(), st.integers(0, 2**63 - 1), st.sampled_from(CROSSOVERS))
def test_parents_of_one_length_have_a_child_and_others_two_mutants(data, seed, crossover):
    """Algorithm 1: of the two new modules the first, mutated; with parents of two lengths, both of them mutated."""
    first, second = data.draw(MODULES), data.draw(MODULES)
    children = SPACE.offspring(first, second, np.random.default_rng(seed), 1.0, crossover)
    parents = [first, second]
    if len(first) == len(second):
        rng = np.random.default_rng(seed)
        parents = [crossed_uniformly(first, second, rng) if crossover == UNIFORM else crossed(first, second, rng, 5)[0]]
    assert [child[: len(parent)] for child, parent in zip(children, parents, strict=True)] == parents
    assert [len(child) for child in children] == [min(len(parent) + 1, 5) for parent in parents]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), SEEDS)
def test_fresh_modules_are_new_until_none_is_left(layers, longest, rng):
    space = Space(SPACE.layers[: min(layers, 3)], min(longest, 3))
    known: set[tuple[str, ...]] = set()
    while (module := space.fresh(rng, known, space.longest)) is not None:
        assert module not in known
        assert 1 <= len(module) <= space.longest
        known.add(module)
    assert len(known) == len(space)


def test_a_space_without_a_new_short_module_gives_the_shortest_longer_one():
    """The first brood of a strategy with ``initial_layers`` 1 may have more members than there are layers."""
    space = Space(("a", "b"), 3)
    assert len(space.fresh(np.random.default_rng(1), {("a",), ("b",)}, 1)) == 2


def test_random_modules_are_of_every_length_alike():
    rng = np.random.default_rng(1)
    lengths = np.bincount([len(SPACE.random(rng, 5)) for _ in range(5000)])[1:]
    assert lengths.min() > 900
