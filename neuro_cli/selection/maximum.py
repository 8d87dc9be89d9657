"""Selection of the single best member, which becomes the model (Algorithm 1 of "Distributed Evolution")."""

import numpy as np

from neuro_cli.selection.base import Scores, Selection, Step, ordered


class Maximum(Selection):
    """Selection of the maximum: workers report their best member; the best of those wins, the lowest address among equals."""

    local = compares_members = True

    def report(self, scores: Scores) -> Scores:
        best = int(scores.fitness.argmax())
        return Scores(scores.iteration, scores.first + best, scores.fitness[best : best + 1], scores.path)

    def choose(self, reports: list[Scores], sigma: float) -> list[Step]:
        best = max(ordered(reports), key=lambda scores: float(scores.fitness.max()))  # the first one among equals
        number = best.first + int(best.fitness.argmax())
        return [Step(best.iteration, member, np.array([sigma], np.float32)) for member in (*best.path, number)]
