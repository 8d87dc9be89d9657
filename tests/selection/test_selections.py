"""What is chosen depends on the reports alone, not on their order; each option's arithmetic."""

from itertools import permutations

import numpy as np
import pytest

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.shaping import centred_rank
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
        ((0.0, "raw"), "selection.learning_rate=0.0: must be a number > 0"),
        ((1.0, "best"), "selection.shaping=best: must be one of"),
        ((1.0, "raw", 0), "selection.top_k=0: must be an integer >= 1"),
    ],
)
def test_bad_values_name_their_key(arguments, message):
    with pytest.raises(ConfigError, match=message):
        LinearCombination(*arguments)
