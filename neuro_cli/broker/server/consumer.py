"""Consumers of a broker's tasks: workers, and brokers that help with their own workers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from neuro_cli.broker.proto import broker_pb2 as messages

Key = tuple[str, str]  # run and id of a task
ASSIGNED_BYTES = 32 * 2**20  # bytes of payloads under way to one consumer, above which it gets one task at a time


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
class Assignment:
    """Task of a consumer. ``row``: that of the store; for a task of another broker ``lender`` and ``task`` instead."""

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
    kinds: frozenset[str]  # empty: all kinds
    peer: bool
    send: Callable[[messages.BrokerMessage], None]
    close: Callable[[str], None]
    heard: float
    capacity: int = 0
    assignments: dict[Key, Assignment] = field(default_factory=dict)
    assigned_bytes: int = 0

    @property
    def spare(self) -> int:
        """Number of tasks that it may get now."""
        free = max(0, self.capacity - len(self.assignments))
        return free if self.assigned_bytes < ASSIGNED_BYTES else min(free, 0 if self.assignments else 1)

    def knows(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds

    def take(self, assignment: Assignment) -> None:
        self.assignments[assignment.key] = assignment
        self.assigned_bytes += assignment.size

    def release(self, key: Key) -> Assignment | None:
        """Remove and return its task under ``key``, None without one."""
        assignment = self.assignments.pop(key, None)
        if assignment is not None:
            self.assigned_bytes -= assignment.size
        return assignment
