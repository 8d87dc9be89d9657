"""Python threads that run compiled code side by side (torch and the kernels release the interpreter lock)."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import TypeVar

import torch

T = TypeVar("T")


class Threads:
    """``count`` threads, each with one intra-operator thread, so a result never depends on ``count``.

    The calling thread is one of them: a worker's start takes as long as a small piece of work.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # the inter-operator default of OpenMP is per thread: the main thread's setting does not reach the workers
        self._pool = ThreadPoolExecutor(count - 1, "neuro", lambda: torch.set_num_threads(1)) if count > 1 else None
        torch.set_num_threads(1)

    def map(self, function: Callable[[T], None], items: Iterable[T]) -> None:
        """Call ``function`` on every item; the first exception is raised after all have ended."""
        left = deque(enumerate(items))
        workers = min(self.count, len(left)) - 1
        if self._pool is None or workers < 1:
            for _, item in left:
                function(item)
            return
        failed: list[tuple[int, Exception]] = []

        def work() -> None:
            with suppress(IndexError):  # of the empty queue
                while True:
                    number, item = left.popleft()
                    try:
                        function(item)
                    except Exception as error:
                        failed.append((number, error))

        futures = [self._pool.submit(work) for _ in range(workers)]
        try:
            work()
        finally:
            left.clear()  # after an interrupt nothing more begins
            for future in futures:
                if not future.cancel():  # one that has not begun would find nothing to do, and may wait for this very thread
                    future.result()
        if failed:
            raise min(failed, key=itemgetter(0))[1]

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
