"""A world of any size in one process: what one rank does is done, what others would send is made up.

So the time that a rank of N spends outside of collectives is measured by doing it, whatever the distribution method; the
collectives are noted, for a cost model to price.
"""

from dataclasses import dataclass

import numpy as np

from neuro_cli.fabric.base import World
from neuro_cli.fabric.cost import Call


@dataclass
class Noted:
    """A collective, and for how many seconds the rank did other things while it travelled."""

    call: Call
    hidden: float = 0.0


class Pretend(World):
    """Rank ``rank`` of ``size``; by default the last one, which never has less to do than others (see ``shares``)."""

    library = "none: a world of one process that pretends"

    def __init__(self, size: int, rank: int | None = None) -> None:
        super().__init__()
        self.size, self.rank = size, size - 1 if rank is None else rank
        self.noted: list[Noted] = []
        self._buffers: dict[tuple[int, int, np.dtype], np.ndarray] = {}

    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        if self.size == 1:
            return own
        total, start = sum(counts), sum(counts[: self.rank])
        self.noted.append(Noted(("all_gather", total * own.itemsize)))
        self._count(own.nbytes, total * own.itemsize - own.nbytes)
        gathered = self._buffer(own, total, start)
        gathered[start : start + own.size] = own
        return gathered

    def all_reduce(self, values: np.ndarray) -> None:
        if self.size > 1:
            self.noted.append(Noted(("all_reduce", values.nbytes)))
            self._count(values.nbytes, values.nbytes)

    def broadcast(self, data: bytes) -> bytes:
        return data

    def abort(self, code: int) -> None:
        raise SystemExit(code)

    def _buffer(self, own: np.ndarray, total: int, start: int) -> np.ndarray:
        """Filled once: to write it again would cost what the cost model counts already."""
        key = (total, start, own.dtype)
        if key not in self._buffers:
            self._buffers[key] = np.resize(own, total) if own.size else np.zeros(total, own.dtype)
        return self._buffers[key]

    def _count(self, sent: int, received: int) -> None:
        self.traffic.sent += sent
        self.traffic.received += received
