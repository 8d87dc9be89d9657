"""Settlement of a broker's own tasks: a result, another attempt or the dead-letter list, as soon as the disk takes it."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.consumer import Assignment, Key, key_of
from neuro_cli.broker.server.store import Outcomes, Owned, Store, StoreError
from neuro_cli.broker.settings import BrokerSettings
from neuro_cli.broker.worker import attempt

log = logging.getLogger(__name__)

SAME_AGAIN = tuple(map(messages.Outcome.Value, attempt.SAME_AGAIN))
Pair = tuple[Assignment, messages.Result]


@dataclass
class _Plan:
    """Changes to store, and steps to take once they are stored."""

    outcomes: Outcomes = field(default_factory=Outcomes)
    again: list[tuple[Assignment, bool]] = field(default_factory=list)  # tasks for another attempt, before all others if true
    given_up: list[tuple[Owned, messages.Result, int]] = field(default_factory=list)


class Settling:
    """Settlement of outcomes. Those that a full disk refuses stay in ``pending``, and their tasks with their consumers.

    ``settled`` is called with the keys of stored ones, ``again`` with a task for another attempt, ``delivered`` with runs that
    have new results.
    """

    def __init__(
        self,
        store: Store,
        settings: BrokerSettings,
        settled: Callable[[Key], None],
        again: Callable[[Assignment, bool], None],
        delivered: Callable[[set[str]], None],
    ) -> None:
        self._store, self._settings = store, settings
        self._settled, self._again, self._delivered = settled, again, delivered
        self.pending: dict[Key, Pair] = {}
        self.finished = 0

    @property
    def rows(self) -> set[int]:
        """Rows of the store whose outcomes are not stored yet."""
        return {assignment.row for assignment, _ in self.pending.values()}

    def settle(self, pairs: Iterable[Pair]) -> None:
        """Store these outcomes, and the pending ones."""
        for assignment, result in pairs:
            result.ClearField("delivery")
            self.pending.setdefault(assignment.key, (assignment, result))
        if not self.pending:
            return
        try:
            plan = self._plan()
            kept = self._store.settle(plan.outcomes)
        except StoreError:
            self._store.make_room()
            return
        keys, self.pending = list(self.pending), {}
        for key in keys:
            self._settled(key)
        for assignment, first in plan.again:
            self._again(assignment, first)
        for owned, result, attempts in plan.given_up:
            _tell(owned, result, attempts)
        self.finished += len(kept)
        if kept:
            self._delivered({result.run for result in kept})

    def forget(self, run: str) -> None:
        """Forget the pending outcomes of a run that was dropped."""
        self.pending = {key: pair for key, pair in self.pending.items() if key[0] != run}

    def _plan(self) -> _Plan:
        plan = _Plan()
        for assignment, result in self.pending.values():
            if result.outcome == messages.DONE:
                plan.outcomes.results.append(result)
            else:
                self._plan_failed(plan, assignment, result)
        return plan

    def _plan_failed(self, plan: _Plan, assignment: Assignment, result: messages.Result) -> None:
        """Plan another attempt, or none: then the task is dead, and its result is the failure."""
        unknown, lost = result.outcome == messages.UNKNOWN_KIND and not result.worker, result.outcome == messages.LOST
        attempts, losses = assignment.attempts + (not lost and not unknown), assignment.losses + lost
        limit = self._settings.raised_attempts if result.outcome in SAME_AGAIN else self._settings.attempts
        if not unknown and attempts < limit and losses < self._settings.losses:
            plan.outcomes.costs.append((assignment.row, int(not lost), int(lost)))
            plan.again.append((assignment, lost))
            return
        for owned in self._store.load([assignment.row]):
            count = attempts + losses
            plan.outcomes.results.append(result)
            plan.outcomes.letters.append(
                messages.DeadLetter(task=owned.task, outcome=result.outcome, error=result.error, attempts=count, when=time.time())
            )
            plan.given_up.append((owned, result, count))


def failure(key: Key, outcome: messages.Outcome, text: str, worker: str) -> messages.Result:
    return messages.Result(run=key[0], id=key[1], outcome=outcome, error=text, worker=worker)


def assignment_of(owned: Owned) -> Assignment:
    task = owned.task
    return Assignment(key_of(task), task.kind, task.ByteSize(), task.timeout_seconds, owned.row, owned.attempts, owned.losses)


def _tell(owned: Owned, result: messages.Result, attempts: int) -> None:
    lines = result.error.strip().splitlines() or [""]
    log.warning(
        "task %s of run %s is given up after %d attempts: %s: %s", owned.task.id, owned.task.run, attempts,
        messages.Outcome.Name(result.outcome), lines[-1 if result.outcome == messages.RAISED else 0],
    )  # fmt: skip
