"""How modules come from others."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.model.module_cnn import LAYERS
from neuro_cli.strategy.space import Space, crossed

SPACE = Space(tuple(LAYERS), 5)
MODULES = st.lists(st.sampled_from(SPACE.layers), min_size=1, max_size=SPACE.longest).map(tuple)
SEEDS = st.integers(0, 2**63 - 1).map(np.random.default_rng)


@given(MODULES, SEEDS, st.floats(0, 1))
def test_mutation_appends_one_layer_or_nothing(module, rng, probability):
    child = SPACE.mutated(module, rng, probability)
    assert child[: len(module)] == module
    assert len(child) - len(module) in (0, 1)
    assert len(child) <= SPACE.longest
    assert set(child) <= set(SPACE.layers)


@given(MODULES, SEEDS)
def test_mutation_by_certainty_and_by_none(module, rng):
    assert SPACE.mutated(module, rng, 0.0) == module
    assert len(SPACE.mutated(module, rng, 1.0)) == min(len(module) + 1, SPACE.longest)


@given(st.data(), SEEDS)
def test_crossover_takes_every_layer_from_the_same_place_of_either_parent(data, rng):
    first = data.draw(MODULES)
    second = data.draw(st.lists(st.sampled_from(SPACE.layers), min_size=len(first), max_size=len(first)).map(tuple))
    child = crossed(first, second, rng)
    assert len(child) == len(first)
    assert all(layer in pair for layer, pair in zip(child, zip(first, second, strict=True), strict=True))


def test_crossover_takes_any_set_of_places():
    children = {crossed(("1x1",) * 3, ("5x5",) * 3, np.random.default_rng(seed)) for seed in range(200)}
    assert len(children) == 2**3


@given(MODULES, MODULES, SEEDS, st.floats(0, 1))
def test_parents_of_one_length_have_a_child_and_others_two_mutants(first, second, rng, probability):
    """Algorithm 1."""
    children = SPACE.offspring(first, second, rng, probability)
    if len(first) == len(second):
        (child,) = children
        assert len(child) - len(first) in (0, 1)
        assert all(layer in pair for layer, pair in zip(child, zip(first, second, strict=True), strict=False))
    else:
        assert [child[: len(parent)] for child, parent in zip(children, (first, second), strict=True)] == [first, second]


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


def test_random_modules_are_of_every_length_alike():
    rng = np.random.default_rng(1)
    lengths = np.bincount([len(SPACE.random(rng, 5)) for _ in range(5000)])[1:]
    assert lengths.min() > 900
