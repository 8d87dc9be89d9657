"""Consumers of a broker's tasks, a worker or a broker that helps with its own workers, and the tasks they hold."""

from collections.abc import Callable
from dataclasses import dataclass, field

from neuro_cli.broker.proto import broker_pb2 as messages

Key = tuple[str, str]  # run and id of a task
HELD_BYTES = 32 * 2**20  # payloads that are under way to one consumer, before it gets no more than one task


def key_of(named: messages.Task | messages.TaskKey | messages.Result) -> Key:
    return named.run, named.id


def task_key(key: Key) -> messages.TaskKey:
    return messages.TaskKey(run=key[0], id=key[1])


@dataclass
class Lender:
    """Broker that lent the tasks which wait here; ``send`` takes the messages for it."""

    address: str
    send: Callable[[messages.WorkerMessage], None]


@dataclass
class Held:
    """Task with a consumer. ``row`` is that of the store, or ``lender`` and ``task`` of one that is another broker's."""

    key: Key
    kind: str
    size: int
    timeout: float
    row: int = 0
    attempts: int = 0
    losses: int = 0
    lender: Lender | None = None
    task: messages.Task | None = None
    started: float | None = None


@dataclass(eq=False)
class Consumer:
    """Connected worker or helper; ``send`` puts a message on its stream, ``close`` ends the stream with a reason."""

    name: str
    kinds: frozenset[str]  # none: whatever comes
    peer: bool
    send: Callable[[messages.BrokerMessage], None]
    close: Callable[[str], None]
    heard: float
    capacity: int = 0
    held: dict[Key, Held] = field(default_factory=dict)
    held_bytes: int = 0

    @property
    def spare(self) -> int:
        """Count the tasks that it may get now."""
        free = max(0, self.capacity - len(self.held))
        return free if self.held_bytes < HELD_BYTES else min(free, 0 if self.held else 1)

    def knows(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds

    def take(self, held: Held) -> None:
        self.held[held.key] = held
        self.held_bytes += held.size

    def release(self, key: Key) -> Held | None:
        """Take back what it held under ``key``."""
        held = self.held.pop(key, None)
        if held is not None:
            self.held_bytes -= held.size
        return held
