"""A pool of Python threads that run compiled code side by side (torch and the kernels release the interpreter lock)."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


class Threads:
    """``count`` workers, each with one intra-operator thread, so a result never depends on ``count``."""

    def __init__(self, count: int) -> None:
        self.count = count
        # the inter-operator default of OpenMP is per thread: the main thread's setting does not reach the workers
        self._pool = ThreadPoolExecutor(count, "neuro", lambda: torch.set_num_threads(1)) if count > 1 else None
        torch.set_num_threads(1)

    def map(self, function: Callable[[T], None], items: Iterable[T]) -> None:
        """Call ``function`` on every item; the first exception is raised after all have ended."""
        if self._pool is None:
            for item in items:
                function(item)
            return
        futures = [self._pool.submit(function, item) for item in items]
        for future in futures:
            future.exception()
        for future in futures:
            future.result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


@contextmanager
def threads_kept() -> Iterator[None]:
    """Context after which torch has as many intra-operator threads on this thread as before it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
