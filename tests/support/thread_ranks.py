"""Ranks as threads of the test's own process, which start at once."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from neuro_cli.fabric.base import Arrived, Exchange, World

T = TypeVar("T")
Letters = dict[tuple[int, int], queue.SimpleQueue]


class ThreadRank(World):
    """One of several ranks that share objects through ``table``."""

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, table: list[Any], letters: Letters) -> None:
        super().__init__()
        self.rank, self.size = rank, size
        self._barrier, self._table, self._letters = barrier, table, letters

    def _share(self, value: Any) -> list[Any]:
        self._table[self.rank] = value
        self._barrier.wait()
        seen = list(self._table)
        self._barrier.wait()
        return seen

    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        assert len(own) == counts[self.rank]
        gathered = np.concatenate(self._share(own.copy()))
        self._count(own.nbytes, gathered.nbytes - own.nbytes)
        return gathered

    def start_all_gather(self, own: np.ndarray, counts: list[int]) -> Exchange:
        return Arrived(self.all_gather(own, counts))

    def gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray | None:
        gathered = self.all_gather(own, counts)
        return gathered if self.rank == 0 else None

    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        return [theirs[self.rank].copy() for theirs in self._share([block.copy() for block in blocks])]

    def all_reduce(self, values: np.ndarray) -> None:
        values[:] = np.sum(self._share(values.copy()), axis=0)
        self._count(values.nbytes, values.nbytes)

    def start_all_reduce(self, values: np.ndarray) -> Exchange:
        self.all_reduce(values)
        return Arrived(values)

    def send(self, rank: int, values: np.ndarray) -> None:
        self._letters[self.rank, rank].put(values.copy())
        self._count(values.nbytes, 0)

    def receive(self, rank: int, count: int, dtype: np.dtype) -> np.ndarray:
        values = self._letters[rank, self.rank].get(timeout=60)
        assert values.size == count
        assert values.dtype == dtype
        self._count(0, values.nbytes)
        return values

    def broadcast(self, data: bytes) -> bytes:
        return bytes(self._share(data)[0])

    def abort(self, code: int) -> None:
        self._barrier.abort()

    def _count(self, sent: int, received: int) -> None:
        self.traffic.sent += sent
        self.traffic.received += received


def on_ranks(size: int, work: Callable[[World], T]) -> list[T]:
    """Run ``work`` on every rank and return the results in rank order. Raises the first exception of any rank."""
    barrier, table = threading.Barrier(size, timeout=60), [None] * size
    letters: Letters = {(a, b): queue.SimpleQueue() for a in range(size) for b in range(size)}

    def run(rank: int) -> T:
        try:
            return work(ThreadRank(rank, size, barrier, table, letters))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
    errors = [error for future in futures if (error := future.exception())]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]
