"""Delivery of one run's results to its model, which acknowledges them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.store import Store, StoreError
from neuro_cli.broker.wire import BATCH_BYTES

WINDOW = 2000  # most results that are sent and not yet acknowledged
BATCH = 200
GATHER_SECONDS = 0.002  # seconds in which results gather, since a message costs as much as many of them


class Delivery:
    """Stream of one run's results; a new stream begins with all unacknowledged ones."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run
        self._sent = 0
        self._acknowledged = 0
        self._received: list[str] = []  # received results that a full disk does not let go yet
        self._wake = asyncio.Event()
        self.ended = ""

    def wake(self) -> None:
        """Note new results, or room for more."""
        self._wake.set()

    def end(self, reason: str) -> None:
        self.ended = reason
        self.wake()

    def acknowledge(self, ids: list[str]) -> None:
        self._acknowledged += len(ids)
        self._received += ids
        self.settle()
        self.wake()

    def settle(self) -> None:
        """Forget the received results; later, where the disk does not take that now."""
        if not self._received:
            return
        with contextlib.suppress(StoreError):
            self._store.acknowledge(self._run, self._received)
            self._received = []

    async def push(self, write: Callable[[messages.ResultsReply], Awaitable[None]]) -> None:
        """Send results until :meth:`end`."""
        place = 0
        while not self.ended:
            self._wake.clear()
            free = WINDOW - (self._sent - self._acknowledged)
            results = self._store.results(self._run, place, min(free, BATCH)) if free > 0 else []
            for batch in _batches([result for _, result in results]):
                await write(messages.ResultsReply(results=batch))
                self._sent += len(batch)
            if results:
                place = results[-1][0]
            else:
                await self._wake.wait()
                await asyncio.sleep(GATHER_SECONDS)


def _batches(results: list[messages.Result]) -> list[list[messages.Result]]:
    """Yield groups that each fit into a message."""
    groups: list[list[messages.Result]] = []
    size = 0
    for result in results:
        length = result.ByteSize()
        if not groups or size + length > BATCH_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(result)
        size += length
    return groups
