"""A worker's report as a message."""

from typing import Any

from neuro_cli.evolve.collector import Report
from neuro_cli.evolve.record import InvalidRecordError, finite
from neuro_cli.selection.base import Scores


def message_of(report: Report) -> dict[str, Any]:
    scores = report.scores
    return {
        "k": "report",
        "i": scores.iteration,
        "m": scores.first,
        "f": scores.fitness.astype("<f4").tobytes(),
        "n": report.members,
        "a": report.means.astype("<f4").tobytes(),
    }


def report_of(message: dict[str, Any]) -> Report:
    """The report of a :func:`message_of`. Raises ConnectionError for one whose scores are no finite numbers."""
    try:
        fitness, means = finite(message["f"]), finite(message["a"])
    except InvalidRecordError as error:
        raise ConnectionError(f"a report without scores: {error}") from error
    scores = Scores(int(message["i"]), int(message["m"]), fitness)
    return Report(scores, int(message["n"]), means)
