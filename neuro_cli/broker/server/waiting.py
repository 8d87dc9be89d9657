"""Tasks that wait at a broker, and their consumers: workers, and brokers that help with the workers that they have.

Tasks wait by their rows in the store: those of the broker's models, and those of a broker that it helps.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.store import Key, Owned, Row, is_lent

ASSIGNED_BYTES = 32 * 2**20  # bytes of payloads under way to one consumer, above which it gets one task at a time


def key_of(named: messages.Task | messages.TaskKey | messages.Result) -> Key:
    return named.run, named.id


def task_key(key: Key) -> messages.TaskKey:
    return messages.TaskKey(run=key[0], id=key[1])


@dataclass(eq=False)
class Consumer:
    """Consumer of waiting tasks, a worker or a helper; ``send`` puts a message on its stream, ``close`` ends it with a reason."""

    name: str
    kinds: frozenset[str]  # empty: all kinds
    peer: bool
    send: Callable[[messages.BrokerMessage], None]
    close: Callable[[str], None]
    heard: float
    capacity: int = 0
    tasks: dict[Key, Owned] = field(default_factory=dict)
    bytes: int = 0

    @property
    def spare(self) -> int:
        """Number of waiting tasks that a consumer may get now."""
        free = max(0, self.capacity - len(self.tasks))
        return free if self.bytes < ASSIGNED_BYTES else min(free, 0 if self.tasks else 1)

    def knows(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds

    def take(self, owned: Owned) -> None:
        self.tasks[owned.key] = owned
        self.bytes += owned.size

    def release(self, key: Key) -> Owned | None:
        """Remove and return its task under ``key``, None without one."""
        owned = self.tasks.pop(key, None)
        if owned is not None:
            self.bytes -= owned.size
        return owned


class Waiting:
    """Waiting tasks by kind, first come, first served. A row may be stale (finished or dropped since); the store knows."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._queues: dict[tuple[str, bool], deque[int]] = {}  # key: kind, and whether another broker owns the tasks
        for row in rows:
            self.add(row)

    @property
    def own(self) -> int:
        """Number of waiting tasks of this broker's models."""
        return sum(len(queue) for (_, lent), queue in self._queues.items() if not lent)

    @property
    def helping(self) -> int:
        """Number of waiting tasks of other brokers."""
        return sum(len(queue) for (_, lent), queue in self._queues.items() if lent)

    def kinds(self) -> set[str]:
        """Return the kinds of the waiting tasks that `own` counts."""
        return {kind for (kind, lent), queue in self._queues.items() if queue and not lent}

    def add(self, row: Row, *, first: bool = False) -> None:
        queue = self._queues.setdefault((row.kind, is_lent(row.run)), deque())
        queue.appendleft(row.row) if first else queue.append(row.row)

    def count(self, consumer: Consumer) -> int:
        """Count the waiting tasks that could go to ``consumer``."""
        return sum(map(len, self._for(consumer)))

    def take(self, consumer: Consumer, most: int) -> list[int]:
        """Remove and return up to ``most`` waiting rows for ``consumer``, a share of each kind, so that none waits for others."""
        queues = self._for(consumer)
        share = -(-most // max(1, len(queues)))
        taken: list[int] = []
        for queue in queues:
            taken += [queue.popleft() for _ in range(min(share, len(queue), most - len(taken)))]
        return taken

    def take_kind(self, kind: str) -> list[int]:
        """Remove and return the waiting rows of a kind, without those of other brokers."""
        return list(self._queues.pop((kind, False), ()))

    def _for(self, consumer: Consumer) -> list[deque[int]]:
        """Return the queues for ``consumer``. Tasks of other brokers never go to a third one."""
        return [
            queue
            for (kind, lent), queue in self._queues.items()
            if queue and consumer.knows(kind) and not (lent and consumer.peer)
        ]
