"""Waiting tasks of a broker, by kind: its own by their rows in the store, and those of brokers that it helps."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.consumer import Consumer, Key, Lender


class Waiting:
    """Queues, first come, first served within a kind. A row may be stale (finished or dropped since); the store knows."""

    def __init__(self) -> None:
        self._own: dict[str, deque[int]] = {}
        self._helping: dict[str, deque[tuple[messages.Task, Lender]]] = {}

    @property
    def own(self) -> int:
        """Number of own tasks that wait."""
        return sum(map(len, self._own.values()))

    @property
    def helping(self) -> int:
        """Number of tasks of other brokers that wait."""
        return sum(map(len, self._helping.values()))

    def kinds(self) -> set[str]:
        """Return the kinds of own tasks that wait."""
        return {kind for kind, rows in self._own.items() if rows}

    def refill(self, rows: Iterable[tuple[int, str]]) -> None:
        """Replace the own rows by these."""
        self._own = {}
        for row, kind in rows:
            self.add(row, kind)

    def add(self, row: int, kind: str, *, first: bool = False) -> None:
        rows = self._own.setdefault(kind, deque())
        rows.appendleft(row) if first else rows.append(row)

    def help(self, task: messages.Task, lender: Lender, *, first: bool = False) -> None:
        tasks = self._helping.setdefault(task.kind, deque())
        tasks.appendleft((task, lender)) if first else tasks.append((task, lender))

    def count(self, consumer: Consumer) -> int:
        """Count the waiting tasks that could go to ``consumer``. Tasks of other brokers never go to a third one."""
        own = sum(len(rows) for kind, rows in self._own.items() if consumer.knows(kind))
        if consumer.peer:
            return own
        return own + sum(len(tasks) for kind, tasks in self._helping.items() if consumer.knows(kind))

    def take_helping(self, consumer: Consumer, most: int) -> list[tuple[messages.Task, Lender]]:
        return [] if consumer.peer else _take(self._helping, consumer, most)

    def take_own(self, consumer: Consumer, most: int) -> list[int]:
        return _take(self._own, consumer, most)

    def take_kind(self, kind: str) -> list[int]:
        """Remove and return all own rows of a kind."""
        return list(self._own.pop(kind, ()))

    def take_lent(self, lender: Lender) -> list[Key]:
        """Remove and return all waiting tasks of other brokers."""
        keys = [(task.run, task.id) for tasks in self._helping.values() for task, whose in tasks if whose is lender]
        self.forget(lender)
        return keys

    def forget(self, lender: Lender, keys: set[Key] | None = None) -> None:
        """Forget tasks of another broker: those named, or all."""
        for kind, tasks in self._helping.items():
            self._helping[kind] = deque(
                (task, whose)
                for task, whose in tasks
                if whose is not lender or (keys is not None and (task.run, task.id) not in keys)
            )


def _take(group: dict[str, deque[Any]], consumer: Consumer, most: int) -> list[Any]:
    """Take up to ``most`` tasks of the kinds that ``consumer`` knows, a share of each, so that none waits for another."""
    queues = [queue for kind, queue in group.items() if queue and consumer.knows(kind)]
    share = -(-most // max(1, len(queues)))
    taken: list[Any] = []
    for queue in queues:
        taken += [queue.popleft() for _ in range(min(share, len(queue), most - len(taken)))]
    return taken
