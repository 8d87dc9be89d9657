"""Simulated world of any size in one process: runs the work of one rank, and receives zeros from the others.

So the time that one of N ranks spends outside of collectives is measured for any distribution method; the collectives are
recorded, for a cost model to price.
"""

import time
from dataclasses import dataclass

import numpy as np

from neuro_cli.fabric.base import Arrived, Exchange, World
from neuro_cli.fabric.cost import Call


@dataclass
class Noted:
    """Recorded collective: its begin, and the moment when the rank needed its outcome (seconds of ``perf_counter``)."""

    call: Call
    began: float
    needed: float


class Travelling(Exchange):
    """Exchange that takes no time here; records the moment when the rank needs the outcome."""

    def __init__(self, noted: Noted, outcome: np.ndarray) -> None:
        self._noted, self._outcome = noted, outcome

    def test(self) -> bool:
        return True

    def wait(self) -> np.ndarray:
        self._noted.needed = time.perf_counter()
        return self._outcome


class SimulatedWorld(World):
    """Rank ``rank`` of ``size``; by default the last one, which never has less to do than others (see ``shares``)."""

    library = "none: a world of one process that pretends"

    def __init__(self, size: int, rank: int | None = None) -> None:
        super().__init__()
        self.size, self.rank = size, size - 1 if rank is None else rank
        self.noted: list[Noted] = []
        self._buffers: dict[tuple[int, np.dtype], np.ndarray] = {}

    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        if self.size == 1:
            return own
        total, start = sum(counts), sum(counts[: self.rank])
        self._note("all_gather", total * own.itemsize)
        self._count(own.nbytes, total * own.itemsize - own.nbytes)
        key = (total, own.dtype)
        if key not in self._buffers:  # allocated once: writing it again would take time that the cost model counts already
            self._buffers[key] = np.zeros(total, own.dtype)
        self._buffers[key][start : start + own.size] = own
        return self._buffers[key]

    def start_all_gather(self, own: np.ndarray, counts: list[int]) -> Exchange:
        if self.size == 1:
            return Arrived(own)
        gathered = self.all_gather(own, counts)
        return Travelling(self.noted[-1], gathered)

    def gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray | None:
        return self.all_gather(own, counts) if self.rank == 0 else None

    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        own = blocks[self.rank]
        if self.size > 1:
            sent = sum(block.nbytes for block in blocks)
            self._note("all_to_all", sent)
            self._count(sent - own.nbytes, (self.size - 1) * own.nbytes)
        return [own if rank == self.rank else np.zeros_like(own) for rank in range(self.size)]

    def all_reduce(self, values: np.ndarray) -> None:
        if self.size > 1:
            self._note("all_reduce", values.nbytes)
            self._count(values.nbytes, values.nbytes)

    def start_all_reduce(self, values: np.ndarray) -> Exchange:
        if self.size == 1:
            return Arrived(values)
        self.all_reduce(values)
        return Travelling(self.noted[-1], values)

    def send(self, rank: int, values: np.ndarray) -> None:
        self._note("message", values.nbytes)
        self._count(values.nbytes, 0)

    def receive(self, rank: int, count: int, dtype: np.dtype) -> np.ndarray:
        self._note("message", count * np.dtype(dtype).itemsize)
        self._count(0, count * np.dtype(dtype).itemsize)
        return np.zeros(count, dtype)

    def broadcast(self, data: bytes) -> bytes:
        return data

    def abort(self, code: int) -> None:
        raise SystemExit(code)

    def _note(self, kind: str, size: int) -> None:
        now = time.perf_counter()
        self.noted.append(Noted((kind, size), now, now))

    def _count(self, sent: int, received: int) -> None:
        self.traffic.sent += sent
        self.traffic.received += received
