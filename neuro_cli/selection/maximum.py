"""Selection of the single best member, which becomes the model (seed passing as published): one address per iteration."""

import numpy as np

from neuro_cli.selection.base import Scores, Selection, Step, ordered


class Maximum(Selection):
    """Workers report their best member; the best of those wins, the lowest address among equals."""

    def report(self, scores: Scores) -> Scores:
        best = int(scores.fitness.argmax())
        return Scores(scores.iteration, scores.first + best, scores.fitness[best : best + 1])

    def choose(self, reports: list[Scores], sigma: float) -> list[Step]:
        best = max(ordered(reports), key=lambda scores: float(scores.fitness.max()))  # the first of equals
        number = best.first + int(best.fitness.argmax())
        return [Step(best.iteration, number, np.array([sigma], np.float32))]
