"""A worker's report as a message."""

from typing import Any

from neuro_cli.evolve.collector import Report
from neuro_cli.evolve.messages import Limits, MalformedError
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


def report_of(peer: str, message: dict[str, Any], limits: Limits) -> Report:
    """The report of a checked :func:`message_of`, if ``peer`` can have made it. Raises MalformedError."""
    try:
        fitness, means = finite(message["f"]), finite(message["a"])
    except InvalidRecordError as error:
        raise MalformedError(f"a report without scores: {error}") from error
    report = Report(Scores(message["i"], message["m"], fitness), message["n"], means)
    wrong = misfit(peer, report, limits)
    if wrong:
        raise MalformedError(f"a report {wrong}")
    return report


def misfit(peer: str, report: Report, limits: Limits) -> str:
    """Why ``peer`` cannot have made ``report`` in this run; "" when it can."""
    scores = report.scores
    first = limits.first_member(peer, scores.iteration)
    if report.members != limits.population:
        return f"on {report.members} members, a peer scores {limits.population}"
    if scores.first < first or scores.first + len(scores.fitness) > first + limits.population:
        return f"on members {scores.first} to {scores.first + len(scores.fitness) - 1}, which are not its own"
    if len(report.means) != limits.columns:
        return f"with {len(report.means)} score columns, this task has {limits.columns}"
    return ""
