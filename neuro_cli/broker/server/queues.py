"""Queues of a broker, without a wire: tasks that wait, consumers that hold them, and what follows when things go wrong.

Own tasks live in the store; tasks of other brokers, with which this one helps, live in memory and go back when they fail.
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Sequence

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.consumer import Consumer, Held, Key, Lender, key_of, task_key
from neuro_cli.broker.server.settling import Settling, failure, held_of
from neuro_cli.broker.server.store import Owned, Store, StoreError
from neuro_cli.broker.server.waiting import Waiting
from neuro_cli.broker.settings import BrokerSettings
from neuro_cli.broker.tokens import Deliveries
from neuro_cli.broker.wire import BATCH_BYTES

log = logging.getLogger(__name__)

BATCH = 64  # tasks of one message
TIMEOUT_GRACE = 5.0  # seconds in which a worker itself ends a task that takes too long


class Queues:
    """All tasks of a broker. ``delivered`` gets the runs that have new results; ``clock`` counts seconds."""

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
        self._holders: dict[Key, Consumer] = {}  # of own tasks
        self._unknown_since: dict[str, float] = {}
        self._unread = False  # rows that were taken from what waits could not be read
        self._late_keys: set[Key] = set()  # of pending results that others than the holders sent

    @property
    def finished(self) -> int:
        """Tasks that have had a result since this process began."""
        return self._settling.finished

    @property
    def running(self) -> int:
        """Tasks that consumers hold."""
        return sum(len(consumer.held) for consumer in self.consumers)

    @property
    def room(self) -> int:
        """Count the own tasks that still find room."""
        return max(0, self._settings.queue_limit - self.waiting.own - len(self._holders))

    def submit(self, tasks: Sequence[messages.Task], token: bytes = b"") -> int:
        """Take as many of the first tasks as find room, each once. Returns how many. Raises StoreError, NotYoursError."""
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
        """Let go of the tasks of another broker: those named, or all."""
        self.waiting.forget(lender, keys)
        for consumer in self.consumers:
            gone = [held.key for held in consumer.held.values() if held.lender is lender and (keys is None or held.key in keys)]
            self._take_away(consumer, gone)
        self.assign()

    def give_back(self, lender: Lender) -> list[Key]:
        """Let go of the tasks of another broker for which no worker here has room any more. Returns them."""
        self.assign()
        return self.waiting.take_lent(lender)

    def connect(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def disconnect(self, consumer: Consumer) -> None:
        """Let others have what the consumer held."""
        if consumer not in self.consumers:
            return
        self.consumers.remove(consumer)
        lost = []
        for key in reversed(list(consumer.held)):
            held = self._release(consumer, key)
            if held is None or self._is_pending(held):
                continue
            if held.started is None:
                self._back(held)
            else:
                what = "the broker that helped with it" if consumer.peer else "its worker"
                lost.append((held, failure(key, messages.LOST, f"{what} was lost: {consumer.name}", consumer.name)))
        self._ended(lost)
        self.assign()

    def hear(self, consumer: Consumer, message: messages.WorkerMessage) -> None:
        """Take a consumer's report on the tasks that it holds."""
        consumer.heard = self._clock()
        consumer.capacity = message.capacity
        for named in message.started:
            held = consumer.held.get(key_of(named))
            if held is not None:
                held.started = consumer.heard
                if held.lender is not None:
                    held.lender.send(messages.WorkerMessage(started=[named]))
        for named in message.returned:
            held = consumer.held.get(key_of(named))
            if held is not None and not self._is_pending(held):
                self._release(consumer, held.key)
                self._back(held)
        if message.results:
            self._take_results(consumer, message.results)
        self.assign()

    def drop(self, run: str) -> int:
        """Forget a run's tasks and results. Returns how many that were. Raises StoreError."""
        dropped = self._store.drop(run)
        self._settling.forget(run)
        self._late_keys = {key for key in self._late_keys if key[0] != run}
        for consumer in self.consumers:
            self._take_away(consumer, [held.key for held in consumer.held.values() if not held.lender and held.key[0] == run])
        self.waiting.refill(self._unheld())
        self.assign()
        return dropped

    def assign(self) -> None:
        """Give what waits to those who want it: workers first, brokers that help next, each a fair share."""
        while not self._settling.pending:  # results that cannot be stored must not gather
            hungry = [consumer for consumer in self.consumers if consumer.spare and self.waiting.count(consumer)]
            eager = [consumer for consumer in hungry if not consumer.peer] or hungry
            before = self.waiting.own + self.waiting.helping
            if not eager:
                return
            eager.sort(key=lambda consumer: len(consumer.held))
            shares = [max(1, self.waiting.count(consumer) // len(eager)) for consumer in eager]
            for consumer, share in zip(eager, shares, strict=True):
                self._give(consumer, min(consumer.spare, share, BATCH))
            if self.waiting.own + self.waiting.helping >= before:
                return  # what waits is held under the same name

    def sweep(self) -> None:
        """Find silent consumers, tasks that take too long, and kinds without a worker. A few times a second."""
        now = self._clock()
        self._settling.settle(())
        if self._unread:
            self.waiting.refill(self._unheld())
            self._unread = False
        for consumer in list(self.consumers):
            if now - consumer.heard > self._settings.worker_timeout:
                log.warning("%s is silent for %g s: its tasks go to others", consumer.name, self._settings.worker_timeout)
                self.disconnect(consumer)
                consumer.close("no message for too long")
            for held in [held for held in consumer.held.values() if _overdue(held, now) and not self._is_pending(held)]:
                self._take_away(consumer, [held.key])
                text = f"took longer than {held.timeout:g} s, and its worker did not end it"
                self._ended([(held, failure(held.key, messages.TIMED_OUT, text, consumer.name))])
        self._give_up_unknown(now)
        self.assign()

    def _take_results(self, consumer: Consumer, results: Iterable[messages.Result]) -> None:
        ended = []
        for result in results:
            key = key_of(result)
            held = consumer.held.get(key)
            if held is not None and not self._is_of_delivery(held, result):
                log.warning("%s offers a result of task %s of run %s that is of no delivery of it", consumer.name, key[1], key[0])
                consumer.close("a result without the token of its task's delivery")
                break
            held = held or self._late(result)
            if held is not None and held.lender is not None:
                self._release(consumer, key)
            if held is not None:
                ended.append((held, result))
        self._ended(ended)

    def _is_of_delivery(self, held: Held, result: messages.Result) -> bool:
        """Check that the sender of a result was given the task: by this broker, or by its owner through this broker."""
        if held.lender is not None and held.task is not None:
            return bool(result.delivery == held.task.delivery)
        return self._deliveries.holds(result.delivery, *held.key)

    def _late(self, result: messages.Result) -> Held | None:
        """Find the own task of a late result, from a holder that was given up or of an earlier process of this broker."""
        if result.outcome != messages.DONE or not self._deliveries.holds(result.delivery, *key_of(result)):
            return None
        owned = self._store.find(result.run, result.id)
        if owned is None:
            return None
        self._late_keys.add(key_of(result))
        return held_of(owned)  # its row may still wait: the store will not find it there

    def _ended(self, pairs: Iterable[tuple[Held, messages.Result]]) -> None:
        """Attempts have come to an end: tell the brokers that lent their tasks, store what became of own ones."""
        own = []
        for held, result in pairs:
            if held.lender is not None and held.task is not None:
                result.delivery = held.task.delivery
                held.lender.send(messages.WorkerMessage(results=[result]))
            else:
                own.append((held, result))
        self._settling.settle(own)

    def _settled(self, key: Key) -> None:
        """Let the holder of an own task go: its outcome is stored."""
        holder = self._holders.get(key)
        if holder is not None and key in self._late_keys:
            self._take_away(holder, [key])
        elif holder is not None:
            self._release(holder, key)
        self._late_keys.discard(key)

    def _again(self, held: Held, first: bool) -> None:
        self.waiting.add(held.row, held.kind, first=first)

    def _is_pending(self, held: Held) -> bool:
        return held.lender is None and held.key in self._settling.pending

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
            given_up = [held_of(owned) for owned in self._store.load(self.waiting.take_kind(kind))]
            self._ended((held, failure(held.key, messages.UNKNOWN_KIND, text, "")) for held in given_up)

    def _give(self, consumer: Consumer, most: int) -> None:
        """Send up to ``most`` tasks."""
        batch: list[messages.Task] = []
        size = 0
        for held, task in self._taken(consumer, most):
            if batch and size + held.size > BATCH_BYTES:
                consumer.send(messages.BrokerMessage(tasks=batch))
                batch, size = [], 0
            consumer.take(held)
            if held.lender is None:
                self._holders[held.key] = consumer
            batch.append(task)
            size += held.size
        if batch:
            consumer.send(messages.BrokerMessage(tasks=batch))

    def _taken(self, consumer: Consumer, most: int) -> list[tuple[Held, messages.Task]]:
        """Tasks taken from what waits. One that its model queued at two brokers may be here twice, but not at one consumer."""
        found: dict[Key, tuple[Held, messages.Task]] = {}
        for task, lender in self.waiting.take_helping(consumer, most):
            key = key_of(task)
            if key in consumer.held or key in found:
                self.waiting.help(task, lender)
            else:
                held = Held(key, task.kind, task.ByteSize(), task.timeout_seconds, lender=lender, task=task)
                found[key] = held, task
        for owned in self._loaded(self.waiting.take_own(consumer, most - len(found))):
            key = key_of(owned.task)
            if key in consumer.held or key in found:
                self.waiting.add(owned.row, owned.task.kind)
            elif key not in self._holders:
                owned.task.delivery = self._deliveries.token(*key)
                found[key] = held_of(owned), owned.task
        return list(found.values())

    def _loaded(self, rows: list[int]) -> list[Owned]:
        """Those of the store; without one that can be read now none, and all rows wait again at the next sweep."""
        try:
            return self._store.load(rows)
        except StoreError:
            self._unread = True
            return []

    def _take_away(self, consumer: Consumer, keys: Sequence[Key]) -> None:
        """Tell a consumer to drop tasks: their results are not wanted any more."""
        for key in keys:
            self._release(consumer, key)
        if keys:
            consumer.send(messages.BrokerMessage(dropped=map(task_key, keys)))

    def _release(self, consumer: Consumer, key: Key) -> Held | None:
        held = consumer.release(key)
        if held is not None and held.lender is None:
            self._holders.pop(key, None)
        return held

    def lendable(self) -> int:
        """Count the tasks of another broker that the workers here could begin now."""
        if self.waiting.own or self.waiting.helping:
            return 0
        return sum(consumer.spare for consumer in self.consumers if not consumer.peer)

    def kinds(self) -> set[str]:
        """Kinds that the workers here can do; none: whatever comes, or nothing."""
        kinds = [consumer.kinds for consumer in self.consumers if not consumer.peer]
        return set().union(*kinds) if all(kinds) else set()

    def _back(self, held: Held) -> None:
        """Queue a task that has not begun, before all others."""
        if held.lender is not None and held.task is not None:
            self.waiting.help(held.task, held.lender, first=True)
        else:
            self.waiting.add(held.row, held.kind, first=True)

    def _unheld(self) -> list[tuple[int, str]]:
        held = {held.row for consumer in self.consumers for held in consumer.held.values() if held.lender is None}
        held |= self._settling.rows
        return [(row, kind) for row, kind in self._store.unfinished() if row not in held]


def _secret(store: Store) -> bytes:
    """Key of this broker's tokens, made once."""
    kept = store.fact("deliveries")
    if kept is None:
        kept = secrets.token_hex(32)
        store.note("deliveries", kept)
    return bytes.fromhex(kept)


def _overdue(held: Held, now: float) -> bool:
    return bool(held.timeout and held.started is not None and now > held.started + held.timeout + TIMEOUT_GRACE)
