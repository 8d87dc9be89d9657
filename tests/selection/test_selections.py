"""What is chosen depends on the reports alone, not on their order; each option's arithmetic."""

from itertools import permutations

import numpy as np
import pytest

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.schedule import CONSTANT, Schedule
from neuro_cli.core.shaping import centred_rank, pair_z_score
from neuro_cli.selection.base import Scores
from neuro_cli.selection.linear_combination import LinearCombination
from neuro_cli.selection.maximum import Maximum

REPORTS = [
    Scores(3, 100, np.array([0.1, 0.9, 0.3, -0.5], np.float32)),
    Scores(3, 40, np.array([0.2, 0.8], np.float32)),
    Scores(2, 70, np.array([0.7, 0.9], np.float32)),
]
SIGMA = 0.05


def plain(steps):
    return [(step.iteration, step.first, step.coefficients.tolist()) for step in steps]


@pytest.mark.parametrize("selection", [Maximum(), LinearCombination(0.02, "centred_rank"), LinearCombination(0.02, "z_score", 3)])
def test_the_order_of_reports_changes_nothing(selection):
    choices = [plain(selection.choose(list(reports), SIGMA)) for reports in permutations(REPORTS)]
    assert choices.count(choices[0]) == 6


def test_the_best_member_becomes_the_model_and_of_equals_the_first_address():
    (step,) = Maximum().choose(REPORTS, SIGMA)
    assert (step.iteration, step.first) == (2, 71)
    assert step.coefficients.tolist() == [np.float32(SIGMA)]
    told = Maximum().report(REPORTS[0])
    assert (told.iteration, told.first, told.fitness.tolist()) == (3, 101, [np.float32(0.9)])


def test_the_best_member_brings_its_local_iterations_along():
    scores = Scores(3, 140, np.array([0.2, 1.5], np.float32), (100, 121))
    told = Maximum().report(scores)
    assert (told.first, told.path) == (141, (100, 121))
    steps = Maximum().choose([*REPORTS, told], SIGMA)
    assert plain(steps) == [(3, member, [np.float32(SIGMA)]) for member in (100, 121, 141)]
    assert [kind.local for kind in (Maximum, LinearCombination)] == [True, False]


def test_a_linear_combination_is_the_step_of_an_evolution_strategy():
    steps = LinearCombination(0.02, "centred_rank").choose(REPORTS[:2], SIGMA)
    fitness = np.concatenate([REPORTS[1].fitness, REPORTS[0].fitness])  # by address
    expected = 0.02 * centred_rank(fitness.astype(np.float64)) / (6 * SIGMA)
    assert [(step.first, len(step.coefficients)) for step in steps] == [(40, 2), (100, 4)]
    np.testing.assert_allclose(np.concatenate([step.coefficients for step in steps]), expected, rtol=1e-6)


def test_pairs_are_shaped_by_pairs_and_sent_by_half():
    reports = [REPORTS[1], REPORTS[0]]  # by address
    fitness = np.concatenate([report.fitness for report in reports]).astype(np.float64)
    steps = LinearCombination(0.02, "pair_z_score").choose(REPORTS[:2], SIGMA)
    assert [(step.first, step.paired, step.members) for step in steps] == [
        (40, True, range(40, 42)),
        (100, True, range(100, 104)),
    ]
    expected = 0.02 * pair_z_score(fitness) / (6 * SIGMA)
    np.testing.assert_allclose(np.concatenate([step.weights() for step in steps]), expected, rtol=1e-6)
    equal = Scores(3, 8, np.array([0.5, 0.5, 0.1, 0.2], np.float32))
    assert [step.first for step in LinearCombination(1.0, "pair_rank").choose([equal], SIGMA)] == [10]


def test_the_rate_falls_by_iteration():
    schedule = Schedule("selection.lr_schedule", "linear", 0.0, 10)
    falling, constant = (LinearCombination(0.02, "raw", lr_schedule=each) for each in (schedule, CONSTANT))
    for iteration in (0, 5):
        reports = [Scores(iteration, 0, np.array([0.5, 1.0], np.float32))]
        shares = falling.choose(reports, SIGMA)[0].coefficients / constant.choose(reports, SIGMA)[0].coefficients
        np.testing.assert_allclose(shares, 1 - iteration / 10, rtol=1e-6)
    # a late report is of the iteration before
    steps = falling.choose([Scores(4, 0, np.ones(1)), Scores(5, 9, np.ones(1))], SIGMA)
    assert steps[0].coefficients == steps[1].coefficients == np.float32(0.02 * 0.5 / (2 * SIGMA))
    assert falling.choose([Scores(10, 0, np.ones(1))], SIGMA) == []


def test_only_the_k_best_are_sent():
    steps = LinearCombination(0.02, "raw", 2).choose(REPORTS[:2], SIGMA)
    assert [(step.first, len(step.coefficients)) for step in steps] == [(41, 1), (101, 1)]
    far = [Scores(0, 0, np.array([5.0] + [0.0] * 30 + [4.0], np.float32))]
    assert [(step.first, len(step.coefficients)) for step in LinearCombination(1.0, "raw", 2).choose(far, 1.0)] == [
        (0, 1),
        (31, 1),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, "pair_rank", 3), "selection.top_k=3: must be null: selection.shaping=pair_rank takes all pairs"),
    ],
)
def test_bad_values_name_their_key(arguments, message):
    with pytest.raises(ConfigError, match=message):
        LinearCombination(*arguments)
