"""Consumers of a broker's tasks: workers, and brokers that help with the workers that they have."""

from collections.abc import Callable
from dataclasses import dataclass, field

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.store import Key, Owned

ASSIGNED_BYTES = 32 * 2**20  # bytes of payloads under way to one consumer, above which it gets one task at a time


def key_of(named: messages.Task | messages.TaskKey | messages.Result) -> Key:
    return named.run, named.id


def task_key(key: Key) -> messages.TaskKey:
    return messages.TaskKey(run=key[0], id=key[1])


@dataclass(eq=False)
class Consumer:
    """Connected worker or helper; ``send`` puts a message on its stream, ``close`` ends the stream with a reason."""

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
        """Number of tasks that it may get now."""
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
