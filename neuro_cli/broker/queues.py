"""The heart of a broker, without a wire: which task waits, who holds it, and what becomes of it when things go wrong.

Own tasks live in the store; tasks of other brokers, with which this one helps, live in memory and go back when they fail.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from neuro_cli.broker.consumer import Consumer, Held, Key, Lender, key_of, task_key
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.settings import BrokerSettings
from neuro_cli.broker.store import Owned, Store
from neuro_cli.broker.waiting import Waiting

log = logging.getLogger(__name__)

BATCH = 64  # tasks of one message
BATCH_BYTES = 2**20  # payloads of one message, if it has more than one
TIMEOUT_GRACE = 5.0  # seconds in which a worker itself ends a task that takes too long
SAME_AGAIN = (messages.RAISED, messages.UNKNOWN_KIND, messages.TOO_LARGE, messages.OUT_OF_MEMORY)  # so would be the next attempt


class Queues:
    """All tasks of a broker. ``delivered`` is told the runs that have new results; ``clock`` counts seconds."""

    def __init__(
        self,
        store: Store,
        settings: BrokerSettings,
        delivered: Callable[[set[str]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._settings, self._delivered, self._clock = store, settings, delivered, clock
        self.waiting = Waiting()
        self.waiting.refill(store.unfinished())
        self.consumers: list[Consumer] = []
        self._holders: dict[Key, Consumer] = {}  # of own tasks
        self._unknown_since: dict[str, float] = {}
        self.finished = 0

    @property
    def running(self) -> int:
        """Tasks that consumers hold."""
        return sum(len(consumer.held) for consumer in self.consumers)

    @property
    def room(self) -> int:
        """How many own tasks more find room."""
        return max(0, self._settings.queue_limit - self.waiting.own - len(self._holders))

    def submit(self, tasks: Sequence[messages.Task]) -> int:
        """Take as many of the first tasks as find room, each once. Returns how many."""
        taken = tasks[: self.room]
        for row, kind in self._store.add(taken) if taken else ():
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
        for key in reversed(list(consumer.held)):
            held = self._release(consumer, key)
            if held is None:
                continue
            if held.started is None:
                self._back(held)
            else:
                what = "the broker that helped with it" if consumer.peer else "its worker"
                self._failed(held, _failure(key, messages.LOST, f"{what} was lost: {consumer.name}", consumer.name))
        self.assign()

    def hear(self, consumer: Consumer, message: messages.WorkerMessage) -> None:
        """What a consumer says about the tasks it holds."""
        consumer.heard = self._clock()
        consumer.capacity = message.capacity
        for named in message.started:
            held = consumer.held.get(key_of(named))
            if held is not None:
                held.started = consumer.heard
                if held.lender is not None:
                    held.lender.send(messages.WorkerMessage(started=[named]))
        for named in message.returned:
            if (held := self._release(consumer, key_of(named))) is not None:
                self._back(held)
        if message.results:
            self._take_results(consumer, message.results)
        self.assign()

    def drop(self, run: str) -> int:
        """Forget a run's tasks and results. Returns how many that were."""
        dropped = self._store.drop(run)
        for consumer in self.consumers:
            self._take_away(consumer, [held.key for held in consumer.held.values() if not held.lender and held.key[0] == run])
        self.waiting.refill(self._unheld())
        self.assign()
        return dropped

    def assign(self) -> None:
        """Give what waits to those who want it: workers first, brokers that help next, each a fair share."""
        while True:
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
        """Look for silent consumers, tasks that take too long, and kinds that nobody knows. A few times a second."""
        now = self._clock()
        for consumer in list(self.consumers):
            if now - consumer.heard > self._settings.worker_timeout:
                log.warning("%s is silent for %g s: its tasks go to others", consumer.name, self._settings.worker_timeout)
                self.disconnect(consumer)
                consumer.close("no message for too long")
            for held in [held for held in consumer.held.values() if _overdue(held, now)]:
                self._take_away(consumer, [held.key])
                text = f"took longer than {held.timeout:g} s, and its worker did not end it"
                self._failed(held, _failure(held.key, messages.TIMED_OUT, text, consumer.name))
        self._give_up_unknown(now)
        self.assign()

    def _take_results(self, consumer: Consumer, results: Iterable[messages.Result]) -> None:
        done = []
        for result in results:
            held = self._release(consumer, key_of(result))
            if held is None:
                held = self._late(result)
            if held is None:
                continue
            if result.outcome != messages.DONE:
                self._failed(held, result)
            elif held.lender is not None:
                held.lender.send(messages.WorkerMessage(results=[result]))
            else:
                done.append(result)
        self._finish(done)

    def _late(self, result: messages.Result) -> Held | None:
        """An own task that its holder was thought to have lost, or that this broker knew under an earlier process."""
        owned = self._store.find(result.run, result.id) if result.outcome == messages.DONE else None
        if owned is None:
            return None
        holder = self._holders.get(key_of(result))
        if holder is not None:
            self._take_away(holder, [key_of(result)])
        return _held(owned)  # its row may still wait: the store will not find it there

    def _finish(self, results: Sequence[messages.Result]) -> None:
        kept = self._store.finish(results) if results else []
        self.finished += len(kept)
        if kept:
            self._delivered({result.run for result in kept})

    def _failed(self, held: Held, result: messages.Result) -> None:
        """Another attempt, or none: then the task is dead, and its result is the failure."""
        if held.lender is not None:
            held.lender.send(messages.WorkerMessage(results=[result]))
            return
        lost = result.outcome == messages.LOST
        held.attempts, held.losses = held.attempts + (not lost), held.losses + lost
        limit = self._settings.raised_attempts if result.outcome in SAME_AGAIN else self._settings.attempts
        if held.attempts < limit and held.losses < self._settings.losses:
            self._store.count(held.row, attempts=int(not lost), losses=int(lost))
            self.waiting.add(held.row, held.kind, first=lost)
            return
        for owned in self._store.load([held.row]):
            self._bury(owned, result, held.attempts + held.losses)

    def _bury(self, owned: Owned, result: messages.Result, attempts: int) -> None:
        lines = result.error.strip().splitlines() or [""]
        log.warning(
            "task %s of run %s is given up after %d attempts: %s: %s", owned.task.id, owned.task.run, attempts,
            messages.Outcome.Name(result.outcome), lines[-1 if result.outcome == messages.RAISED else 0],
        )  # fmt: skip
        self._store.bury(
            messages.DeadLetter(task=owned.task, outcome=result.outcome, error=result.error, attempts=attempts, when=time.time())
        )
        self._finish([result])

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
            for owned in self._store.load(self.waiting.take_kind(kind)):
                self._bury(owned, _failure(key_of(owned.task), messages.UNKNOWN_KIND, text, ""), owned.attempts)

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
        """Tasks taken from what waits. One whose model queued it at two brokers may be here twice, but not at one consumer."""
        found: dict[Key, tuple[Held, messages.Task]] = {}
        for task, lender in self.waiting.take_helping(consumer, most):
            key = key_of(task)
            if key in consumer.held or key in found:
                self.waiting.help(task, lender)
            else:
                held = Held(key, task.kind, task.ByteSize(), task.timeout_seconds, lender=lender, task=task)
                found[key] = held, task
        for owned in self._store.load(self.waiting.take_own(consumer, most - len(found))):
            key = key_of(owned.task)
            if key in consumer.held or key in found:
                self.waiting.add(owned.row, owned.task.kind)
            elif key not in self._holders:
                found[key] = _held(owned), owned.task
        return list(found.values())

    def _take_away(self, consumer: Consumer, keys: Sequence[Key]) -> None:
        """Tell a consumer that nobody wants these results."""
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
        """How many tasks of another broker the workers here could begin now."""
        if self.waiting.own or self.waiting.helping:
            return 0
        return sum(consumer.spare for consumer in self.consumers if not consumer.peer)

    def kinds(self) -> set[str]:
        """What the workers here can do; none: whatever comes, or nothing."""
        kinds = [consumer.kinds for consumer in self.consumers if not consumer.peer]
        return set().union(*kinds) if all(kinds) else set()

    def _back(self, held: Held) -> None:
        """Queue a task that nobody touched, before all others."""
        if held.lender is not None and held.task is not None:
            self.waiting.help(held.task, held.lender, first=True)
        else:
            self.waiting.add(held.row, held.kind, first=True)

    def _unheld(self) -> list[tuple[int, str]]:
        held = {held.row for consumer in self.consumers for held in consumer.held.values() if held.lender is None}
        return [(row, kind) for row, kind in self._store.unfinished() if row not in held]


def _held(owned: Owned) -> Held:
    task = owned.task
    return Held(key_of(task), task.kind, task.ByteSize(), task.timeout_seconds, owned.row, owned.attempts, owned.losses)


def _failure(key: Key, outcome: messages.Outcome, text: str, worker: str) -> messages.Result:
    return messages.Result(run=key[0], id=key[1], outcome=outcome, error=text, worker=worker)


def _overdue(held: Held, now: float) -> bool:
    return bool(held.timeout and held.started is not None and now > held.started + held.timeout + TIMEOUT_GRACE)
