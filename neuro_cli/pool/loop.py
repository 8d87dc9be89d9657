"""Event loop in a thread, for synchronous callers."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Event loop in a thread, which begins with the first call and lasts until :meth:`close`.

    Processes that are started on it end with that thread (``core.machine.process.die_with_parent``).
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """True after a call to the loop's thread, until :meth:`close`."""
        return self._loop is not None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop, and return or raise its outcome. An interrupt of the caller cancels it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="pool", daemon=True)
            self._thread.start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            while True:
                try:
                    return future.result(timeout=1.0)  # signal handlers run in between
                except TimeoutError:
                    if future.done():
                        raise
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel the tasks of the loop, and end the thread."""
        if self._loop is None:
            return
        try:
            self.call(_rest())
        finally:
            self.stop()

    def stop(self) -> None:
        """End the thread at once; tasks of the loop do not continue."""
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()


async def _rest() -> None:
    """Cancel all tasks of the loop but this one, and wait for their end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
