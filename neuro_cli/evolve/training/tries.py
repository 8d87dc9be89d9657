"""Tries of a worker in an iteration: one round of scoring, or several, each from the result of the round before."""

import numpy as np

from neuro_cli.algo.base import Proposal
from neuro_cli.distribution.finite import refuse_nan
from neuro_cli.evolve.collector import ScoreReport
from neuro_cli.evolve.training.model import first_member, local_iterations, moved_by, steps_of, stride
from neuro_cli.runner.build import Parts
from neuro_cli.selection.base import Scores, Selection


def tries(parts: Parts, selection: Selection, me: str, iteration: int) -> ScoreReport:
    """Score the members of the peer ``me`` and return its report.

    All local iterations are scored on the examples of ``iteration``, so that the fitnesses of different peers compare, and each
    has members of its own. The rounds move a copy of the parameters, not the model.
    """
    population, rounds = parts.config.population, local_iterations(parts)
    scorer, sigma, centre = parts.distribution.job.scorer, steps_of(parts).sigma, steps_of(parts).centre
    first, path, means = first_member(me, iteration, parts), (), []  # type: int, tuple[int, ...], list[np.ndarray]
    while True:
        members = range(first, first + population)
        sums = scorer.scores(Proposal.around(centre, sigma), iteration, members)
        scores = scorer.means(sums)
        refuse_nan(scores, iteration, parts.task)
        means.append(scores.mean(axis=0))
        chosen = selection.report(Scores(iteration, first, scores[:, 0], path))
        if len(means) == rounds:
            break
        steps = selection.choose([chosen], sigma)
        centre = centre + moved_by(parts, steps[-1])
        path, first = tuple(step.first for step in steps), first + stride(parts)
    return ScoreReport(chosen, population * rounds, np.mean(means, axis=0).astype(np.float32))
