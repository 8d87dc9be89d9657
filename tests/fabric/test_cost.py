"""The cost model of collectives against the algorithms' own counts, and its fit against a model that is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.fabric.cost import GATHER_LONG, Cost, CostModel, _least_squares_above_zero, fit, shape_of, stalled

KINDS = ("all_gather", "all_reduce", "all_to_all")


def ring_all_gather(ranks: int, size: int) -> tuple[int, float]:
    """Counted by doing it: every step each rank passes on one block."""
    held = [{rank} for rank in range(ranks)]
    steps = 0
    while any(len(blocks) < ranks for blocks in held):
        passed = [(rank - steps) % ranks for rank in range(ranks)]
        for rank, block in enumerate(passed):
            held[(rank + 1) % ranks].add(block)
        steps += 1
    return steps, steps * size / ranks


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 96])
def test_a_long_all_gather_goes_round_a_ring(ranks):
    size = 2 * GATHER_LONG
    messages, volume = shape_of(("all_gather", size), ranks)
    assert (messages, volume * size) == pytest.approx(ring_all_gather(ranks, size))


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
def test_a_long_all_reduce_is_a_reduce_scatter_and_an_all_gather(ranks):
    """By recursive halving and doubling: the halves that a rank sends are summed here."""
    halves = [1 / 2**step for step in range(1, int(math.log2(ranks)) + 1)]
    messages, volume = shape_of(("all_reduce", 10**7), ranks)
    assert messages == 2 * len(halves)
    assert volume == pytest.approx(2 * sum(halves))


@given(kind=st.sampled_from(KINDS), size=st.integers(1, 10**9), ranks=st.integers(2, 2048))
def test_costs_grow_with_ranks_of_one_algorithm_and_never_vanish(kind, size, ranks):
    model = CostModel(Cost(1e-5, 1e9), Cost(1e-5, 1e9))
    assert 0 < model.seconds((kind, size), ranks) <= model.seconds((kind, size), 2 * ranks)
    assert model.seconds((kind, size), 1) == 0.0


@settings(deadline=None)
@given(latency=st.floats(1e-7, 1e-3), bandwidth=st.floats(1e7, 1e10), kind=st.sampled_from(KINDS[:2]))
def test_a_fit_finds_the_model_that_made_the_times(latency, bandwidth, kind):
    true = CostModel(Cost(latency, bandwidth), Cost(latency, bandwidth))
    small, large = 64, int(max(1000 * latency * bandwidth, 10**6))
    made = [((kind, size), ranks, true.seconds((kind, size), ranks)) for size in (small, large) for ranks in (2, 4)]
    found = fit(made)
    again = CostModel(found, found)
    for call, ranks, seconds in made:
        assert again.seconds(call, ranks) == pytest.approx(seconds, rel=1e-3)


@settings(deadline=None)  # scipy is imported by the first
@given(seed=st.integers(0, 10**6), scale=st.floats(1e-9, 1e9), lean=st.floats(-3, 3))
def test_the_fit_is_the_least_square_of_numbers_above_zero(seed, scale, lean):
    from scipy.optimize import nnls

    random = np.random.default_rng(seed)
    rows, right = random.normal(lean, 1.0, (5, 2)) * [1.0, scale], random.normal(0.0, 1.0, 5)
    found = np.array(_least_squares_above_zero(rows, right))
    assert (found >= 0).all()
    assert np.linalg.norm(rows @ found - right) == pytest.approx(nnls(rows, right)[1], rel=1e-6)


SECOND = CostModel(Cost(0.0, 1.0), Cost(0.0, 1.0))  # all_reduce of 1 byte on 2 ranks: log2(2) times a second


@pytest.mark.parametrize(
    ("calls", "late"),
    [
        ([], 0.0),
        ([(0.0, 0.0)], 1.0),
        ([(0.0, 0.0), (5.0, 5.0)], 2.0),  # two that block
        ([(0.0, 3.0)], 0.0),  # hidden by other work
        ([(0.0, 0.4)], 0.6),
        ([(0.0, 1.0), (0.1, 1.0)], 1.0),  # one after the other on one link
        ([(0.0, 0.0), (0.5, 2.5)], 1.0),  # the second begins a second late, and its work too
    ],
)
def test_a_rank_waits_for_what_its_work_does_not_hide(calls, late):
    calls = [(("all_reduce", 1), began, needed) for began, needed in calls]
    assert stalled(calls, SECOND, 2) == pytest.approx(late)
