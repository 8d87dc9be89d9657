"""Several seeds of one search in lockstep: the bits of each alone, and calls of its own where sharing would change them."""

import logging

import numpy as np
import pytest
from support.thread_ranks import on_ranks

from neuro_cli import AskTell, Stopping, run_seeds
from neuro_cli.core.errors import ConfigError, UserError

GIVEN = {
    "start": np.ones(3), "sigma": 0.5, "population": 6, "minimise": True, "restarts": "ipop", "most_restarts": 1,
    "stopping": Stopping(generations=12, target=0.05),
}  # fmt: skip


def sphere(candidates: np.ndarray) -> np.ndarray:
    return (candidates**2).sum(1)


def alone(seed: int, function) -> AskTell:
    search = AskTell(seed=seed, **GIVEN)
    while not search.stopped:
        search.tell(function(search.ask()))
    return search


def assert_same(searches: list[AskTell], function) -> None:
    for search in searches:
        other = alone(search.seed, function)
        assert np.array_equal(search.centre, other.centre)
        assert (search.best.fitness, search.ended) == (other.best.fitness, other.ended)


def test_each_seed_has_the_bits_of_a_run_alone_in_fewer_calls():
    calls = []

    def counted(candidates: np.ndarray) -> np.ndarray:
        calls.append(len(candidates))
        return sphere(candidates)

    searches = run_seeds(counted, range(1, 5), **GIVEN)
    assert [search.seed for search in searches] == [1, 2, 3, 4]
    assert len({search.generation for search in searches}) > 1, "they stop at different generations"
    generations = sum(search.generation for search in searches)
    assert max(calls) == 24
    assert len(calls) < generations
    assert_same(searches, sphere)


def test_a_function_whose_bits_depend_on_the_others_is_called_seed_by_seed(caplog):
    def relative(candidates: np.ndarray) -> np.ndarray:
        return sphere(candidates) - 0.1 * sphere(candidates).mean()

    with caplog.at_level(logging.WARNING):
        searches = run_seeds(relative, [3, 1], **GIVEN)
    assert caplog.messages == [
        "the function gives a candidate other bits in a call with those of other seeds: it is called seed by seed"
    ]
    assert_same(searches, relative)


def test_ranks_share_out_the_candidates_of_all_seeds():
    def centres(world) -> list[np.ndarray]:
        return [search.centre for search in run_seeds(sphere, [1, 2], world=world, **GIVEN)]

    for found in on_ranks(3, centres):
        for centre, seed in zip(found, (1, 2), strict=True):
            assert np.array_equal(centre, alone(seed, sphere).centre)


def test_wrong_seeds_and_fitnesses_are_refused():
    for seeds in ([], [1, 1]):
        with pytest.raises(ConfigError, match=r"seeds=\[.*must be one or more different integers"):
            run_seeds(sphere, seeds, **GIVEN)
    with pytest.raises(ConfigError, match=r"seed=-1"):
        run_seeds(sphere, [-1], **GIVEN)
    with pytest.raises(UserError, match=r"the function gives \(\) fitnesses for 12 candidates"):
        run_seeds(lambda candidates: 1.0, [1, 2], **GIVEN)
