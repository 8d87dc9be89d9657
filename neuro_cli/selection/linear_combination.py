"""Step of an evolution strategy, sent as addresses and coefficients of all members or of the k best."""

import numpy as np

from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.schedule import CONSTANT, Schedule
from neuro_cli.core.shaping import PAIR_SHAPINGS, SHAPINGS, by_rank
from neuro_cli.selection.base import Scores, Selection, Step, ordered


class LinearCombination(Selection):
    """Linear combination: a step along the estimated gradient (Salimans et al. 2017) by ``learning_rate`` and ``lr_schedule``.

    ``shaping``: centred_rank | nes_utilities | z_score | centred | raw compare all members; pair_z_score | pair_rank |
    pair_rank_cubed compare the two members of each pair. ``top_k``: number of members that count, None: all.
    """

    def __init__(
        self, learning_rate: float, shaping: str, top_k: int | None = None, lr_schedule: Schedule = CONSTANT
    ) -> None:  # fmt: skip
        self.learning_rate = number("selection.learning_rate", learning_rate, above=0.0)
        shapings = SHAPINGS | PAIR_SHAPINGS
        self._shape = shapings[one_of("selection.shaping", shaping, tuple(shapings))]
        self.needs_pairs = shaping in PAIR_SHAPINGS
        self.top_k = None if top_k is None else integer("selection.top_k", top_k, 1)
        if self.needs_pairs and top_k is not None:
            raise ConfigError("selection.top_k", top_k, f"must be null: selection.shaping={shaping} takes all pairs")
        self._schedule = lr_schedule

    def report(self, scores: Scores) -> Scores:
        return scores

    def choose(self, reports: list[Scores], sigma: float) -> list[Step]:
        reports = ordered(reports)
        fitness = np.concatenate([scores.fitness for scores in reports]).astype(np.float64)
        rate = self.learning_rate * self._schedule.factor(reports[-1].iteration)
        coefficients = self._shape(fitness) * (rate / (len(fitness) * sigma))
        if self.top_k is not None:
            coefficients *= by_rank(
                fitness, np.arange(len(fitness)) >= len(fitness) - self.top_k
            )  # members of equal fitness share a place
        cuts = np.cumsum([len(scores.fitness) for scores in reports])[:-1]
        parts = zip(reports, np.split(coefficients.astype(np.float32), cuts), strict=True)
        return [step for scores, part in parts for step in _without_zeros(scores, part, self.needs_pairs)]


def _without_zeros(scores: Scores, coefficients: np.ndarray, paired: bool) -> list[Step]:
    """Return a step for each run of members or pairs with coefficients other than 0; the others are not sent."""
    sides = 2 if paired else 1
    values = coefficients[::sides]
    used = np.flatnonzero(values)
    if not len(used):
        return []
    runs = np.split(used, np.flatnonzero(np.diff(used) > 8) + 1)  # a short gap costs less than another run
    return [
        Step(scores.iteration, scores.first + sides * int(run[0]), values[run[0] : run[-1] + 1], paired) for run in runs
    ]  # fmt: skip
