"""Tasks that wait at a broker, by their rows in the store: those of its models, and those of a broker that it helps."""

from collections import deque
from collections.abc import Iterable

from neuro_cli.broker.server.consumer import Consumer
from neuro_cli.broker.server.store import Row, is_lent


class Waiting:
    """Queues by kind, first come, first served. A row may be stale (finished or dropped since); the store knows."""

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
        """Return the kinds of the tasks that `own` counts."""
        return {kind for (kind, lent), queue in self._queues.items() if queue and not lent}

    def add(self, row: Row, *, first: bool = False) -> None:
        queue = self._queues.setdefault((row.kind, is_lent(row.run)), deque())
        queue.appendleft(row.row) if first else queue.append(row.row)

    def count(self, consumer: Consumer) -> int:
        """Count the waiting tasks that could go to ``consumer``."""
        return sum(map(len, self._for(consumer)))

    def take(self, consumer: Consumer, most: int) -> list[int]:
        """Remove and return up to ``most`` rows for ``consumer``, a share of each kind, so that none waits for another."""
        queues = self._for(consumer)
        share = -(-most // max(1, len(queues)))
        taken: list[int] = []
        for queue in queues:
            taken += [queue.popleft() for _ in range(min(share, len(queue), most - len(taken)))]
        return taken

    def take_kind(self, kind: str) -> list[int]:
        """Remove and return the rows of a kind, without those of other brokers."""
        return list(self._queues.pop((kind, False), ()))

    def _for(self, consumer: Consumer) -> list[deque[int]]:
        """Return the queues for ``consumer``. Tasks of other brokers never go to a third one."""
        return [
            queue
            for (kind, lent), queue in self._queues.items()
            if queue and consumer.knows(kind) and not (lent and consumer.peer)
        ]
