"""Queues of a broker, without a network: waiting tasks, their consumers, and the handling of failures.

Own tasks are in the store. Tasks of other brokers, which this one helps, are in memory and go back when they fail.
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Sequence

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.consumer import Assignment, Consumer, Key, Lender, key_of, task_key
from neuro_cli.broker.server.settling import Settling, assignment_of, failure
from neuro_cli.broker.server.store import Owned, Store, StoreError
from neuro_cli.broker.server.waiting import Waiting
from neuro_cli.broker.settings import BrokerSettings
from neuro_cli.broker.tokens import Deliveries
from neuro_cli.broker.wire import BATCH_BYTES

log = logging.getLogger(__name__)

BATCH = 64  # most tasks of a message
TIMEOUT_GRACE = 5.0  # seconds in which a worker itself ends a task that takes too long


class Queues:
    """Tasks of a broker. ``delivered`` is called with runs that have new results; ``clock`` counts seconds."""

    def __init__(
        self,
        store: Store,
        settings: BrokerSettings,
        delivered: Callable[[set[str]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._settling = Settling(store, settings, self._settled, self._again, delivered)
        self._deliveries = Deliveries(_secret(store))
        self.waiting = Waiting()
        self.waiting.refill(store.unfinished())
        self.consumers: list[Consumer] = []
        self._holders: dict[Key, Consumer] = {}  # consumers of own tasks
        self._unknown_since: dict[str, float] = {}
        self._unread = False  # waiting rows that were taken could not be read
        self._late_keys: set[Key] = set()  # keys of pending results that others than the holders sent

    @property
    def finished(self) -> int:
        """Tasks that have had a result since this process began."""
        return self._settling.finished

    @property
    def running(self) -> int:
        """Tasks that consumers hold."""
        return sum(len(consumer.assignments) for consumer in self.consumers)

    @property
    def room(self) -> int:
        """Number of own tasks for which the queue has room."""
        return max(0, self._settings.queue_limit - self.waiting.own - len(self._holders))

    def submit(self, tasks: Sequence[messages.Task], token: bytes = b"") -> int:
        """Take as many of the first tasks as fit, each once. Returns their number. Raises StoreError, NotYoursError."""
        taken = tasks[: self.room]
        for row, kind in self._store.add(taken, token) if taken else ():
            self.waiting.add(row, kind)
        self.assign()
        return len(taken)

    def help(self, tasks: Iterable[messages.Task], lender: Lender) -> None:
        """Take tasks of another broker."""
        for task in tasks:
            self.waiting.help(task, lender)
        self.assign()

    def forget_lender(self, lender: Lender, keys: set[Key] | None = None) -> None:
        """Drop tasks of another broker: those named, or all."""
        self.waiting.forget(lender, keys)
        for consumer in self.consumers:
            gone = [
                assignment.key
                for assignment in consumer.assignments.values()
                if assignment.lender is lender and (keys is None or assignment.key in keys)
            ]
            self._take_away(consumer, gone)
        self.assign()

    def give_back(self, lender: Lender) -> list[Key]:
        """Drop the tasks of another broker for which no worker here has room any more. Returns them."""
        self.assign()
        return self.waiting.take_lent(lender)

    def connect(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def disconnect(self, consumer: Consumer) -> None:
        """Remove a consumer, and let others have its tasks."""
        if consumer not in self.consumers:
            return
        self.consumers.remove(consumer)
        lost = []
        for key in reversed(list(consumer.assignments)):
            assignment = self._release(consumer, key)
            if assignment is None or self._is_pending(assignment):
                continue
            if assignment.started is None:
                self._back(assignment)
            else:
                what = "the broker that helped with it" if consumer.peer else "its worker"
                lost.append((assignment, failure(key, messages.LOST, f"{what} was lost: {consumer.name}", consumer.name)))
        self._ended(lost)
        self.assign()

    def hear(self, consumer: Consumer, message: messages.WorkerMessage) -> None:
        """Take a consumer's report on its tasks."""
        consumer.heard = self._clock()
        consumer.capacity = message.capacity
        for named in message.started:
            assignment = consumer.assignments.get(key_of(named))
            if assignment is not None:
                assignment.started = consumer.heard
                if assignment.lender is not None:
                    assignment.lender.send(messages.WorkerMessage(started=[named]))
        for named in message.returned:
            assignment = consumer.assignments.get(key_of(named))
            if assignment is not None and not self._is_pending(assignment):
                self._release(consumer, assignment.key)
                self._back(assignment)
        if message.results:
            self._take_results(consumer, message.results)
        self.assign()

    def drop(self, run: str) -> int:
        """Forget a run's tasks and results. Returns their number. Raises StoreError."""
        dropped = self._store.drop(run)
        self._settling.forget(run)
        self._late_keys = {key for key in self._late_keys if key[0] != run}
        for consumer in self.consumers:
            self._take_away(
                consumer,
                [
                    assignment.key
                    for assignment in consumer.assignments.values()
                    if not assignment.lender and assignment.key[0] == run
                ],
            )
        self.waiting.refill(self._unassigned())
        self.assign()
        return dropped

    def assign(self) -> None:
        """Give waiting tasks to consumers: workers first, then brokers that help, a fair share each."""
        while not self._settling.pending:  # results that cannot be stored must not gather
            hungry = [consumer for consumer in self.consumers if consumer.spare and self.waiting.count(consumer)]
            eager = [consumer for consumer in hungry if not consumer.peer] or hungry
            before = self.waiting.own + self.waiting.helping
            if not eager:
                return
            eager.sort(key=lambda consumer: len(consumer.assignments))
            shares = [max(1, self.waiting.count(consumer) // len(eager)) for consumer in eager]
            for consumer, share in zip(eager, shares, strict=True):
                self._give(consumer, min(consumer.spare, share, BATCH))
            if self.waiting.own + self.waiting.helping >= before:
                return  # the consumer has a task of the same name

    def sweep(self) -> None:
        """Find silent consumers, tasks that take too long, and kinds without a worker. Called a few times a second."""
        now = self._clock()
        self._settling.settle(())
        if self._unread:
            self.waiting.refill(self._unassigned())
            self._unread = False
        for consumer in list(self.consumers):
            if now - consumer.heard > self._settings.worker_timeout:
                log.warning("%s is silent for %g s: its tasks go to others", consumer.name, self._settings.worker_timeout)
                self.disconnect(consumer)
                consumer.close("no message for too long")
            for assignment in [
                assignment
                for assignment in consumer.assignments.values()
                if _overdue(assignment, now) and not self._is_pending(assignment)
            ]:
                self._take_away(consumer, [assignment.key])
                text = f"took longer than {assignment.timeout:g} s, and its worker did not end it"
                self._ended([(assignment, failure(assignment.key, messages.TIMED_OUT, text, consumer.name))])
        self._give_up_unknown(now)
        self.assign()

    def _take_results(self, consumer: Consumer, results: Iterable[messages.Result]) -> None:
        ended = []
        for result in results:
            key = key_of(result)
            assignment = consumer.assignments.get(key)
            if assignment is not None and not self._is_of_delivery(assignment, result):
                log.warning("%s offers a result of task %s of run %s that is of no delivery of it", consumer.name, key[1], key[0])
                consumer.close("a result without the token of its task's delivery")
                break
            assignment = assignment or self._late(result)
            if assignment is not None and assignment.lender is not None:
                self._release(consumer, key)
            if assignment is not None:
                ended.append((assignment, result))
        self._ended(ended)

    def _is_of_delivery(self, assignment: Assignment, result: messages.Result) -> bool:
        """Return whether the sender of a result was given the task, by this broker or by its owner through this broker."""
        if assignment.lender is not None and assignment.task is not None:
            return bool(result.delivery == assignment.task.delivery)
        return self._deliveries.holds(result.delivery, *assignment.key)

    def _late(self, result: messages.Result) -> Assignment | None:
        """Find the own task of a late result, of a lost consumer or of an earlier process of this broker."""
        if result.outcome != messages.DONE or not self._deliveries.holds(result.delivery, *key_of(result)):
            return None
        owned = self._store.find(result.run, result.id)
        if owned is None:
            return None
        self._late_keys.add(key_of(result))
        return assignment_of(owned)  # its row may still wait, and the store will not find it there

    def _ended(self, pairs: Iterable[tuple[Assignment, messages.Result]]) -> None:
        """End attempts: report to the brokers that lent their tasks, and store the outcomes of own ones."""
        own = []
        for assignment, result in pairs:
            if assignment.lender is not None and assignment.task is not None:
                result.delivery = assignment.task.delivery
                assignment.lender.send(messages.WorkerMessage(results=[result]))
            else:
                own.append((assignment, result))
        self._settling.settle(own)

    def _settled(self, key: Key) -> None:
        """Release an own task from its consumer once its outcome is stored."""
        holder = self._holders.get(key)
        if holder is not None and key in self._late_keys:
            self._take_away(holder, [key])
        elif holder is not None:
            self._release(holder, key)
        self._late_keys.discard(key)

    def _again(self, assignment: Assignment, first: bool) -> None:
        self.waiting.add(assignment.row, assignment.kind, first=first)

    def _is_pending(self, assignment: Assignment) -> bool:
        return assignment.lender is None and assignment.key in self._settling.pending

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
            given_up = [assignment_of(owned) for owned in self._store.load(self.waiting.take_kind(kind))]
            self._ended((assignment, failure(assignment.key, messages.UNKNOWN_KIND, text, "")) for assignment in given_up)

    def _give(self, consumer: Consumer, most: int) -> None:
        """Send up to ``most`` tasks."""
        batch: list[messages.Task] = []
        size = 0
        for assignment, task in self._taken(consumer, most):
            if batch and size + assignment.size > BATCH_BYTES:
                consumer.send(messages.BrokerMessage(tasks=batch))
                batch, size = [], 0
            consumer.take(assignment)
            if assignment.lender is None:
                self._holders[assignment.key] = consumer
            batch.append(task)
            size += assignment.size
        if batch:
            consumer.send(messages.BrokerMessage(tasks=batch))

    def _taken(self, consumer: Consumer, most: int) -> list[tuple[Assignment, messages.Task]]:
        """Take waiting tasks. One that its model queued at two brokers may be here twice, but not at one consumer."""
        taken: dict[Key, tuple[Assignment, messages.Task]] = {}
        for task, lender in self.waiting.take_helping(consumer, most):
            key = key_of(task)
            if key in consumer.assignments or key in taken:
                self.waiting.help(task, lender)
            else:
                assignment = Assignment(key, task.kind, task.ByteSize(), task.timeout_seconds, lender=lender, task=task)
                taken[key] = assignment, task
        for owned in self._loaded(self.waiting.take_own(consumer, most - len(taken))):
            key = key_of(owned.task)
            if key in consumer.assignments or key in taken:
                self.waiting.add(owned.row, owned.task.kind)
            elif key not in self._holders:
                owned.task.delivery = self._deliveries.token(*key)
                taken[key] = assignment_of(owned), owned.task
        return list(taken.values())

    def _loaded(self, rows: list[int]) -> list[Owned]:
        """Load rows of the store; where it cannot be read now none, and all rows wait again at the next sweep."""
        try:
            return self._store.load(rows)
        except StoreError:
            self._unread = True
            return []

    def _take_away(self, consumer: Consumer, keys: Sequence[Key]) -> None:
        """Tell a consumer to drop tasks whose results nobody wants any more."""
        for key in keys:
            self._release(consumer, key)
        if keys:
            consumer.send(messages.BrokerMessage(dropped=map(task_key, keys)))

    def _release(self, consumer: Consumer, key: Key) -> Assignment | None:
        assignment = consumer.release(key)
        if assignment is not None and assignment.lender is None:
            self._holders.pop(key, None)
        return assignment

    def lendable(self) -> int:
        """Return the number of tasks of another broker that the workers here could begin now."""
        if self.waiting.own or self.waiting.helping:
            return 0
        return sum(consumer.spare for consumer in self.consumers if not consumer.peer)

    def kinds(self) -> set[str]:
        """Return the kinds that the workers here can do; empty: all of them, or none."""
        kinds = [consumer.kinds for consumer in self.consumers if not consumer.peer]
        return set().union(*kinds) if all(kinds) else set()

    def _back(self, assignment: Assignment) -> None:
        """Queue a task that has not begun, before all others."""
        if assignment.lender is not None and assignment.task is not None:
            self.waiting.help(assignment.task, assignment.lender, first=True)
        else:
            self.waiting.add(assignment.row, assignment.kind, first=True)

    def _unassigned(self) -> list[tuple[int, str]]:
        """Return (row, kind) of the own tasks that no consumer has and whose outcome is not pending."""
        tasks = [task for consumer in self.consumers for task in consumer.assignments.values()]
        taken = {task.row for task in tasks if task.lender is None} | self._settling.rows
        return [(row, kind) for row, kind in self._store.unfinished() if row not in taken]


def _secret(store: Store) -> bytes:
    """Return the key of this broker's tokens, which is drawn once."""
    kept = store.fact("deliveries")
    if kept is None:
        kept = secrets.token_hex(32)
        store.note("deliveries", kept)
    return bytes.fromhex(kept)


def _overdue(assignment: Assignment, now: float) -> bool:
    return bool(
        assignment.timeout and assignment.started is not None and now > assignment.started + assignment.timeout + TIMEOUT_GRACE
    )
