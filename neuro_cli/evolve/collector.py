"""Collector of the leader: the reports on the present iteration, and the peers to wait for. Time is an argument."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuro_cli.evolve.ledger.record import InvalidRecordError, finite
from neuro_cli.evolve.network.messages import Limits, MalformedError
from neuro_cli.selection.base import Scores

REMEMBERED = 16  # past iterations whose first reports are remembered


@dataclass(frozen=True)
class ScoreReport:
    """Report of one peer on one iteration.

    ``members``: number scored in all its local iterations; it may report the fitnesses of fewer.

    ``means`` (C,) float32: mean of every score column over all its members, the fitness first.
    """

    scores: Scores
    members: int
    means: np.ndarray


class Collector:
    """Collector of a leader. ``deadline``: seconds after the first report of an iteration."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.iteration = -1
        self.reports: dict[str, ScoreReport] = {}
        self.too_late = 0
        self._progress: dict[str, int] = {}
        self._behind: set[str] = set()
        self._dropped: set[str] = set()  # peers with unusable reports on this iteration
        self._counted: set[str] = set()  # peers with reports in the last iteration
        self._firsts: dict[int, float] = {}  # time of the first report of each of the last iterations

    def begin(self, iteration: int) -> None:
        """Begin ``iteration``, since all before it are committed."""
        if iteration == self.iteration:
            return
        followed = iteration == self.iteration + 1  # we collected the last iteration too
        self._counted = set(self.reports) if followed else set()
        missing = set(self._progress) - self._counted if followed else set()
        self._behind |= {peer for peer in missing if self._progress[peer] >= self.iteration - 1}
        self.iteration, self.reports, self.too_late = iteration, {}, 0
        self._dropped = set()
        self._firsts = {past: when for past, when in self._firsts.items() if past >= iteration - REMEMBERED}

    def progress(self, peer: str, iteration: int) -> None:
        """Note that ``peer`` works on ``iteration`` now."""
        self._progress[peer] = iteration

    def forget(self, peer: str) -> None:
        self._progress.pop(peer, None)
        self._behind.discard(peer)

    def take(self, peer: str, report: ScoreReport, now: float) -> bool:
        """Take a report. Returns whether it came in time."""
        iteration = report.scores.iteration
        self.progress(peer, max(iteration, self._progress.get(peer, 0)))
        if iteration == self.iteration:
            if peer in self._dropped or self._overlaps(peer, report.scores):
                return False
            self._behind.discard(peer)
            self.reports[peer] = report
            self._firsts.setdefault(iteration, now)
            return True
        if iteration > self.iteration or (iteration == self.iteration - 1 and peer in self._counted):
            return True  # the peer is ahead of us (it will send it again), or sent it twice
        self.too_late += 1
        first = self._firsts.get(iteration)
        if first is not None and now <= first + self.deadline:
            self._behind.discard(peer)  # only late for this decision; the next one waits for the peer
        else:
            self._behind.add(peer)
        return False

    def drop(self, peer: str) -> None:
        """Drop the unusable report of ``peer``; the iteration is decided without it."""
        self.reports.pop(peer, None)
        self._dropped.add(peer)

    def _overlaps(self, peer: str, scores: Scores) -> bool:
        """Return whether another peer has drawn one of these addresses: rare, but then a coefficient would count twice."""
        low, high = scores.first, scores.first + len(scores.fitness)
        others = (report.scores for name, report in self.reports.items() if name != peer)
        return any(other.first < high and low < other.first + len(other.fitness) for other in others)

    def at_work(self, connected: set[str]) -> set[str]:
        """Return the peers of ``connected`` that have reported to work on this iteration."""
        return {peer for peer in connected if self._progress.get(peer, -1) >= self.iteration}

    def awaited(self, connected: set[str]) -> set[str]:
        """Return the peers of ``connected`` that work on this iteration, were not late last time, and have not reported."""
        current = {peer for peer, iteration in self._progress.items() if iteration >= self.iteration - 1}
        return (current & connected) - self._behind - self._dropped - set(self.reports)

    def ready(self, connected: set[str], now: float) -> bool:
        """Return whether to decide now. ``connected``: includes this peer."""
        if not self.reports:
            return False
        return not self.awaited(connected) or now >= self._firsts[self.iteration] + self.deadline

    def all_reports(self) -> list[ScoreReport]:
        """Return the reports that count, in the order of the addresses."""
        return sorted(self.reports.values(), key=lambda report: report.scores.first)


def message_of(report: ScoreReport) -> dict[str, Any]:
    scores = report.scores
    message = {
        "k": "report",
        "i": scores.iteration,
        "m": scores.first,
        "f": scores.fitness.astype("<f8").tobytes(),
        "n": report.members,
        "a": report.means.astype("<f4").tobytes(),
    }
    return message if not scores.path else message | {"k": "sequence", "p": list(scores.path)}


def report_of(peer: str, message: dict[str, Any], limits: Limits) -> ScoreReport:
    """Decode a checked :func:`message_of`. Raises MalformedError for one that ``peer`` cannot send in this run."""
    try:
        fitness, means = finite(message["f"], "<f8"), finite(message["a"])
    except InvalidRecordError as error:
        raise MalformedError(f"a report without scores: {error}") from error
    scores = Scores(message["i"], message["m"], fitness, tuple(message.get("p", ())))
    report = ScoreReport(scores, message["n"], means)
    wrong = misfit(peer, report, limits)
    if wrong:
        raise MalformedError(f"a report {wrong}")
    return report


def misfit(peer: str, report: ScoreReport, limits: Limits) -> str:
    """Return why ``peer`` cannot report this in this run; "" when it can."""
    scores, expected = report.scores, limits.population * limits.local_iterations
    if report.members != expected:
        return f"on {report.members} members, a peer scores {expected}"
    if len(scores.path) != limits.local_iterations - 1:
        return f"of {len(scores.path) + 1} local iterations, a peer makes {limits.local_iterations}"
    for local, member in enumerate(scores.path):
        if member not in limits.members(peer, scores.iteration, local):
            return f"with member {member} in local iteration {local}, which is not its own"
    mine = limits.members(peer, scores.iteration, len(scores.path))
    if scores.first < mine.start or scores.first + len(scores.fitness) > mine.stop:
        return f"on members {scores.first} to {scores.first + len(scores.fitness) - 1}, which are not its own"
    if limits.pairs and (scores.first % 2 or len(scores.fitness) % 2):
        return "that splits a mirrored pair"
    if len(report.means) != limits.columns:
        return f"with {len(report.means)} score columns, this task has {limits.columns}"
    return ""
