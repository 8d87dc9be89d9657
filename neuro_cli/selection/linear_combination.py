"""Step of an evolution strategy, sent as addresses and coefficients of all members or of the k best."""

import numpy as np

from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.shaping import SHAPINGS, by_rank
from neuro_cli.selection.base import Scores, Selection, Step, ordered


class LinearCombination(Selection):
    """``learning_rate``: of the estimated gradient (Salimans et al. 2017); ``top_k``: number of members that count, None: all."""

    def __init__(self, learning_rate: float, shaping: str, top_k: int | None = None) -> None:
        self.learning_rate = number("selection.learning_rate", learning_rate, above=0.0)
        self._shape = SHAPINGS[one_of("selection.shaping", shaping, tuple(SHAPINGS))]
        self.top_k = None if top_k is None else integer("selection.top_k", top_k, 1)

    def report(self, scores: Scores) -> Scores:
        return scores

    def choose(self, reports: list[Scores], sigma: float) -> list[Step]:
        reports = ordered(reports)
        fitness = np.concatenate([scores.fitness for scores in reports]).astype(np.float64)
        coefficients = self._shape(fitness) * (self.learning_rate / (len(fitness) * sigma))
        if self.top_k is not None:
            coefficients *= by_rank(
                fitness, np.arange(len(fitness)) >= len(fitness) - self.top_k
            )  # members of equal fitness share a place
        cuts = np.cumsum([len(scores.fitness) for scores in reports])[:-1]
        parts = zip(reports, np.split(coefficients.astype(np.float32), cuts), strict=True)
        return [step for scores, part in parts for step in _without_zeros(scores, part)]


def _without_zeros(scores: Scores, coefficients: np.ndarray) -> list[Step]:
    """Return a step for each run of members with coefficients other than 0; the others are not sent."""
    used = np.flatnonzero(coefficients)
    if not len(used):
        return []
    runs = np.split(used, np.flatnonzero(np.diff(used) > 8) + 1)  # a short gap costs less than another run
    return [Step(scores.iteration, scores.first + int(run[0]), coefficients[run[0] : run[-1] + 1]) for run in runs]
