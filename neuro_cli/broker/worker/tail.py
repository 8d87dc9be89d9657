"""Tail of a task process's standard error, which has everything that a task prints."""

import asyncio
import os

TAIL_BYTES = 4096


class Tail(asyncio.Protocol):
    """Last bytes of a pipe: ``text``, complete when ``ended`` is set.

    The pipe is not one of asyncio's process, which counts as running while a process that a task left behind keeps the pipe open.
    """

    def __init__(self) -> None:
        self.text = b""
        self.ended = asyncio.Event()
        self._transport: asyncio.ReadTransport | None = None

    async def open(self) -> int:
        """Make the pipe. Returns its end to write to, which the caller closes. Raises OSError."""
        reading, writing = os.pipe()
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, os.fdopen(reading, "rb", 0))
        return writing

    def data_received(self, data: bytes) -> None:
        self.text = (self.text + data)[-TAIL_BYTES:]

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()

    def close(self) -> None:
        """Close our end of the pipe, even where a process still writes to it."""
        if self._transport is not None:
            self._transport.close()
