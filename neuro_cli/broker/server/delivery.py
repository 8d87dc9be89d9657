"""Delivery of one run's results: to its model, or to the broker whose tasks they are."""

import asyncio
from collections.abc import Awaitable, Callable

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.store import Store
from neuro_cli.broker.wire import batches

BATCH = 200  # most results that are loaded at once
GATHER_SECONDS = 0.002  # seconds in which results gather, since a message costs as much as many of them


class Delivery:
    """Stream of one run's results; a new stream begins with all unacknowledged ones."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self.run = store, run
        self._wake = asyncio.Event()
        self.ended = ""

    def wake(self) -> None:
        """Note new results to deliver."""
        self._wake.set()

    def end(self, reason: str) -> None:
        self.ended = reason
        self.wake()

    async def push(self, write: Callable[[messages.ResultsReply], Awaitable[None]]) -> None:
        """Deliver results until :meth:`end`."""
        place = 0
        while not self.ended:
            self._wake.clear()
            results = self._store.results(self.run, place, BATCH)
            for batch in batches([result for _, result in results]):
                await write(messages.ResultsReply(results=batch))
            if results:
                place = results[-1][0]
            else:
                await self._wake.wait()
                await asyncio.sleep(GATHER_SECONDS)


class Deliveries(dict[str, Delivery]):
    """Open streams of results, by their runs."""

    def wake(self, runs: set[str]) -> None:
        """Note new results to deliver to these runs."""
        for run in runs & self.keys():
            self[run].wake()
