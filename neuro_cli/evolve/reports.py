"""A worker's report as a message."""

from typing import Any

import numpy as np

from neuro_cli.evolve.collector import Report
from neuro_cli.selection.base import Scores


def message_of(report: Report) -> dict[str, Any]:
    scores = report.scores
    return {
        "k": "report",
        "i": scores.iteration,
        "m": scores.first,
        "f": scores.fitness.astype("<f4").tobytes(),
        "n": report.members,
        "t": report.total,
        "s": report.side.astype("<f8").tobytes(),
    }


def report_of(message: dict[str, Any]) -> Report:
    """The report of a :func:`message_of`. Raises ConnectionError for one without finite fitnesses."""
    fitness = np.frombuffer(message["f"], "<f4")
    if not len(fitness) or not np.isfinite(fitness).all():
        raise ConnectionError("a report without fitnesses")
    scores = Scores(int(message["i"]), int(message["m"]), fitness)
    return Report(scores, int(message["n"]), float(message["t"]), np.frombuffer(message["s"], "<f8"))
