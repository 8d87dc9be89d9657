"""Simulated world of any size in one process: does the work of one rank and receives zeros from the others.

It measures the time that one of N ranks spends outside of collectives, for any distribution method. A cost model turns the
recorded collectives into seconds.
"""

import time
from dataclasses import dataclass

import numpy as np

from neuro_cli.fabric.base import Arrived, Exchange, SingleProcess
from neuro_cli.fabric.cost import Call


@dataclass
class Noted:
    """Recorded collective: its begin, and when the rank needed its outcome (seconds of ``perf_counter``)."""

    call: Call
    began: float
    needed: float


class Travelling(Arrived):
    """Exchange that takes no time; records when the rank needs the outcome."""

    def __init__(self, noted: Noted, outcome: np.ndarray) -> None:
        super().__init__(outcome)
        self._noted = noted

    def wait(self) -> np.ndarray:
        self._noted.needed = time.perf_counter()
        return super().wait()


class SimulatedWorld(SingleProcess):
    """Rank ``rank`` of ``size``; by default the last one, which never has less work than others (see ``shares``)."""

    library = "none: a world of one process that pretends"

    def __init__(self, size: int, rank: int | None = None) -> None:
        super().__init__()
        self.size, self.rank = size, size - 1 if rank is None else rank
        self.noted: list[Noted] = []
        self._buffers: dict[tuple[int, np.dtype], np.ndarray] = {}

    def all_gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        if self.size == 1:
            return block
        total, start = sum(counts), sum(counts[: self.rank])
        self._note("all_gather", total * block.itemsize)
        self._count(block.nbytes, total * block.itemsize - block.nbytes)
        key = (total, block.dtype)
        if key not in self._buffers:  # allocated once: the cost model already counts the time of writing it
            self._buffers[key] = np.zeros(total, block.dtype)
        self._buffers[key][start : start + block.size] = block
        return self._buffers[key]

    def start_all_gather(self, block: np.ndarray, counts: list[int]) -> Exchange:
        if self.size == 1:
            return Arrived(block)
        gathered = self.all_gather(block, counts)
        return Travelling(self.noted[-1], gathered)

    def gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray | None:
        return self.all_gather(block, counts) if self.rank == 0 else None

    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        block = blocks[self.rank]
        if self.size > 1:
            sent = sum(block.nbytes for block in blocks)
            self._note("all_to_all", sent)
            self._count(sent - block.nbytes, (self.size - 1) * block.nbytes)
        return [block if rank == self.rank else np.zeros_like(block) for rank in range(self.size)]

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

    def _note(self, kind: str, size: int) -> None:
        now = time.perf_counter()
        self.noted.append(Noted((kind, size), now, now))
