"""Queues of a broker, without a network: waiting tasks, their consumers, and the handling of failures.

The store has all tasks. Runs whose names say so (`store.is_lent`) have the tasks of a broker that this one helps; that broker
handles their failures.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.store import Key, Outcomes, Owned, Row, Store, is_lent
from neuro_cli.broker.server.waiting import Consumer, Waiting, key_of, task_key
from neuro_cli.broker.settings import BrokerSettings
from neuro_cli.broker.tokens import Deliveries
from neuro_cli.broker.wire import batches
from neuro_cli.broker.worker import attempt

log = logging.getLogger(__name__)

BATCH = 64  # most tasks of a message
TIMEOUT_GRACE = 5.0  # seconds in which a worker itself ends a task that takes too long
SAME_AGAIN = tuple(map(messages.Outcome.Value, attempt.SAME_AGAIN))
Pair = tuple[Owned, messages.Result]


class Queues:
    """Tasks of a broker. ``delivered`` is called with runs that have new results; ``clock`` counts seconds.

    Methods raise StoreError where the store does not take or give something. The broker ends then.
    """

    def __init__(
        self,
        store: Store,
        settings: BrokerSettings,
        delivered: Callable[[set[str]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._settings, self._delivered, self._clock = store, settings, delivered, clock
        self._deliveries = Deliveries(bytes.fromhex(store.drawn("deliveries", 32)))
        self.waiting = Waiting(store.unfinished())
        self.consumers: list[Consumer] = []
        self.finished = 0  # tasks that have had a result since this process began
        self._holders: dict[Key, Consumer] = {}
        self._unknown_since: dict[str, float] = {}

    @property
    def running(self) -> int:
        """Tasks of the queues that consumers hold."""
        return len(self._holders)

    @property
    def room(self) -> int:
        """Number of further tasks for which the queue has room."""
        return max(0, self._settings.queue_limit - self.waiting.own - len(self._holders))

    def submit(self, tasks: Sequence[messages.Task], token: bytes = b"") -> int:
        """Take as many of the first tasks into the queues as fit, each once. Returns their number. Raises NotYoursError."""
        taken = tasks[: self.room]
        for row in self._store.add(taken, token) if taken else ():
            self.waiting.add(row)
        self.assign()
        return len(taken)

    def drop(self, run: str, ids: Iterable[str] | None = None) -> int:
        """Drop tasks of a run from the queues, with their results; None: the run. Returns the number of its tasks and results."""
        ids = None if ids is None else set(ids)
        dropped = self._store.drop(run, ids)
        for consumer in self.consumers:
            self._take_away(consumer, [key for key in consumer.tasks if key[0] == run and (ids is None or key[1] in ids)])
        self.waiting = Waiting(self._without_consumer())
        self.assign()
        return dropped

    def without_consumer(self, run: str) -> list[str]:
        """Return the ids of a run's tasks that no consumer here has room for."""
        self.assign()
        rows = [row.row for row in self._without_consumer() if row.run == run]
        return [owned.task.id for owned in self._store.load(rows)]

    def connect(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def disconnect(self, consumer: Consumer) -> None:
        """Remove a consumer from the queues, and let others have its tasks."""
        if consumer not in self.consumers:
            return
        self.consumers.remove(consumer)
        what = "the broker that helped with it" if consumer.peer else "its worker"
        lost = []
        for key in reversed(list(consumer.tasks)):
            owned = self._release(consumer, key)
            if owned is not None and owned.started is None:
                self.waiting.add(owned.place, first=True)
            elif owned is not None:
                lost.append((owned, _failure(key, messages.LOST, f"{what} was lost: {consumer.name}", consumer.name)))
        self._end(lost)
        self.assign()

    def hear(self, consumer: Consumer, message: messages.WorkerMessage) -> None:
        """Take a consumer's report on its tasks from the queues."""
        consumer.heard = self._clock()
        consumer.capacity = message.capacity
        for named in message.started:
            owned = consumer.tasks.get(key_of(named))
            if owned is not None:
                owned.started = consumer.heard
        for named in message.returned:
            owned = self._release(consumer, key_of(named))
            if owned is not None:
                self.waiting.add(owned.place, first=True)
        if message.results:
            self._take_results(consumer, message.results)
        self.assign()

    def assign(self) -> None:
        """Give queued tasks to consumers: workers first, then brokers that help, a fair share each."""
        while hungry := [consumer for consumer in self.consumers if consumer.spare and self.waiting.count(consumer)]:
            eager = [consumer for consumer in hungry if not consumer.peer] or hungry
            eager.sort(key=lambda consumer: len(consumer.tasks))
            shares = [max(1, self.waiting.count(consumer) // len(eager)) for consumer in eager]
            for consumer, share in zip(eager, shares, strict=True):
                self._give(consumer, min(consumer.spare, share, BATCH))

    def sweep(self) -> None:
        """Find silent consumers of the queues, tasks that take too long, kinds without a worker. Called a few times a second."""
        now = self._clock()
        for consumer in list(self.consumers):
            if now - consumer.heard > self._settings.worker_timeout:
                log.warning("%s is silent for %g s: its tasks go to others", consumer.name, self._settings.worker_timeout)
                self.disconnect(consumer)
                consumer.close("no message for too long")
            for owned in [owned for owned in consumer.tasks.values() if _overdue(owned, now)]:
                self._take_away(consumer, [owned.key])
                text = f"took longer than {owned.task.timeout_seconds:g} s, and its worker did not end it"
                self._end([(owned, _failure(owned.key, messages.TIMED_OUT, text, consumer.name))])
        self._give_up_unknown(now)
        self.assign()

    def lendable(self) -> int:
        """Return the number of queued tasks of another broker that the workers here could begin now."""
        if self.waiting.own or self.waiting.helping:
            return 0
        return sum(consumer.spare for consumer in self.consumers if not consumer.peer)

    def kinds(self) -> set[str]:
        """Return the kinds that the workers here can do; empty: all of them, or none."""
        kinds = [consumer.kinds for consumer in self.consumers if not consumer.peer]
        return set().union(*kinds) if all(kinds) else set()

    def _take_results(self, consumer: Consumer, results: Iterable[messages.Result]) -> None:
        ended: dict[Key, Pair] = {}
        for result in results:
            key = key_of(result)
            ours = self._deliveries.holds(result.delivery, *key)
            owned = consumer.tasks.get(key)
            if owned is not None and not ours:
                log.warning("%s offers a result of task %s of run %s that is of no delivery of it", consumer.name, key[1], key[0])
                consumer.close("a result without the token of its task's delivery")
                break
            if owned is None and ours and result.outcome == messages.DONE:
                owned = self._store.find(
                    *key
                )  # a consumer that was lost, or had it from an earlier process of this broker, has done it
            if owned is not None:
                ended.setdefault(key, (owned, result))
        self._end(list(ended.values()), consumer)

    def _end(self, pairs: Sequence[Pair], sender: Consumer | None = None) -> None:
        """End attempts: store each result, count a failure, or give the task up. ``sender``: whose results they are."""
        if not pairs:
            return
        outcomes = Outcomes()
        again: list[tuple[Row, bool]] = []
        for owned, result in pairs:
            result.ClearField("delivery")
            if result.outcome == messages.DONE:
                outcomes.results.append(result)
            elif self._fail(outcomes, owned, result):
                again.append((owned.place, result.outcome == messages.LOST))
        kept = self._store.settle(outcomes)
        for owned, _ in pairs:
            holder = self._holders.get(owned.key)
            if holder is sender and holder is not None:
                self._release(holder, owned.key)
            elif holder is not None:
                self._take_away(holder, [owned.key])
        for row, first in again:
            self.waiting.add(row, first=first)
        self.finished += len(kept)
        if kept:
            self._delivered({result.run for result in kept})

    def _fail(self, outcomes: Outcomes, owned: Owned, result: messages.Result) -> bool:
        """Count a failed attempt. Returns False where it was the last: then the failure is the result, and the task is dead."""
        unknown, lost = result.outcome == messages.UNKNOWN_KIND and not result.worker, result.outcome == messages.LOST
        owned.attempts, owned.losses = owned.attempts + (not lost and not unknown), owned.losses + lost
        limit = self._settings.raised_attempts if result.outcome in SAME_AGAIN else self._settings.attempts
        if is_lent(owned.task.run):
            outcomes.results.append(result)  # the broker that owns it counts
            return False
        if not unknown and owned.attempts < limit and owned.losses < self._settings.losses:
            outcomes.failed.append(owned)
            return True
        count = owned.attempts + owned.losses
        owned.task.ClearField("payload")  # every client may read dead letters, and only the submitter this
        outcomes.results.append(result)
        outcomes.letters.append(
            messages.DeadLetter(task=owned.task, outcome=result.outcome, error=result.error, attempts=count, when=time.time())
        )
        lines = result.error.strip().splitlines() or [""]
        log.warning(
            "task %s of run %s is given up after %d attempts: %s: %s", owned.task.id, owned.task.run, count,
            messages.Outcome.Name(result.outcome), lines[-1 if result.outcome == messages.RAISED else 0],
        )  # fmt: skip
        return False

    def _give_up_unknown(self, now: float) -> None:
        workers = [consumer for consumer in self.consumers if not consumer.peer]
        unknown = {kind for kind in self.waiting.kinds() if not any(worker.knows(kind) for worker in self.consumers)}
        unknown = unknown if workers else set()
        self._unknown_since = {kind: self._unknown_since.get(kind, now) for kind in unknown}
        for kind, since in list(self._unknown_since.items()):
            if now - since < self._settings.unknown_kind_after:
                continue
            known = ", ".join(sorted(set().union(*(worker.kinds for worker in workers))))
            text = f"the task's type {kind!r} is unknown to the workers; they know {known}"
            given_up = self._store.load(self.waiting.take_kind(kind))
            self._end([(owned, _failure(owned.key, messages.UNKNOWN_KIND, text, "")) for owned in given_up])

    def _give(self, consumer: Consumer, most: int) -> None:
        """Send up to ``most`` tasks. A helper's count as begun: it has room for them, and does not say when it begins."""
        loaded = self._store.load(self.waiting.take(consumer, most))
        given = [owned for owned in loaded if owned.key not in self._holders]
        for owned in given:
            owned.task.delivery = self._deliveries.token(*owned.key)
            owned.started = self._clock() if consumer.peer else None
            consumer.take(owned)
            self._holders[owned.key] = consumer
        for batch in batches([owned.task for owned in given]):
            consumer.send(messages.BrokerMessage(tasks=batch))
        for owned in given:
            owned.task.ClearField("payload")  # the store has it

    def _take_away(self, consumer: Consumer, keys: Sequence[Key]) -> None:
        """Tell a consumer to drop tasks whose results nobody wants any more."""
        for key in keys:
            self._release(consumer, key)
        if keys:
            consumer.send(messages.BrokerMessage(dropped=map(task_key, keys)))

    def _release(self, consumer: Consumer, key: Key) -> Owned | None:
        owned = consumer.release(key)
        if owned is not None:
            self._holders.pop(key, None)
        return owned

    def _without_consumer(self) -> list[Row]:
        """Return the tasks without a result that no consumer has."""
        taken = {owned.row for consumer in self.consumers for owned in consumer.tasks.values()}
        return [row for row in self._store.unfinished() if row.row not in taken]


def _failure(key: Key, outcome: messages.Outcome, text: str, worker: str) -> messages.Result:
    return messages.Result(run=key[0], id=key[1], outcome=outcome, error=text, worker=worker)


def _overdue(owned: Owned, now: float) -> bool:
    limit = owned.task.timeout_seconds
    return bool(limit and owned.started is not None and now > owned.started + limit + TIMEOUT_GRACE)
