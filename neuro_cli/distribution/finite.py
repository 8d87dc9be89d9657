"""Scores that are not finite: an error, or members that are ranked last.

Legend: n members, C score columns.
"""

import numpy as np

from neuro_cli.algo.base import WORST
from neuro_cli.core.errors import CandidateError
from neuro_cli.task.base import Task

ADVICE = "lower algo.sigma or the learning rate, or look at the model's output"
MORE = {
    "loss": " and the targets: a mean has no number where no target counts, some losses have none beyond a range of outputs",
    "return": " and the environment's rewards",
}


def refuse_nan(scores: np.ndarray, generation: int, task: Task) -> None:
    """Raise CandidateError that names the first member of ``scores`` (n, C) with a score that is not finite."""
    bad = first_bad(scores)
    if bad is not None:
        raise candidate_error(task, f"member {bad[0]}", generation, *bad[1:])


def first_bad(scores: np.ndarray) -> tuple[int, int, float] | None:
    """Return (row, column, value) of the first score in (n, C) that is not finite: a loss may be NaN where accuracy is not."""
    rows, columns = np.nonzero(~np.isfinite(scores))
    return (int(rows[0]), int(columns[0]), float(scores[rows[0], columns[0]])) if len(rows) else None


def candidate_error(task: Task, whose: str, generation: int, column: int, value: float) -> CandidateError:
    """Return an error that names the score: for most tasks the fitness is a negative loss."""
    name = task.score_names[column]
    if name == "fitness":
        is_loss = task.has_loss and "loss" not in task.score_names
        name, value = ("loss", -value) if is_loss else (task.fitness_is, value)
    advice = ADVICE + MORE.get(name, "") if column == 0 or name == "loss" else "look at what the task gives as it"
    return CandidateError(f"{name} of {whose} in generation {generation + 1} is {value}: {advice}")


def finite_members(scores: np.ndarray, generation: int, non_finite: str, task: Task) -> np.ndarray:
    """Return a mask (n,) of the members with finite scores (n, C). ``non_finite``: raise | worst.

    Raises CandidateError for a member without (raise), and where no member has any.
    """
    finite: np.ndarray = np.isfinite(scores).all(axis=1)
    if not finite.all() and (non_finite != WORST or not finite.any()):
        refuse_nan(scores, generation, task)
    return finite


def ranked_last(fitness: np.ndarray, finite: np.ndarray, least: float | None = None) -> np.ndarray:
    """Return fitnesses (n,) float64 with those that are not ``finite`` set just below ``least``, None: the lowest finite one.

    Shapings by rank put them last; shapings by value see a number that a finite member could have.
    """
    if finite.all():
        return fitness
    return np.where(finite, fitness, np.nextafter(fitness[finite].min() if least is None else least, -np.inf))
