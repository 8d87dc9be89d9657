"""Contract of a world of ranks: a few collectives on buffers, with the bytes of each counted.

Bytes are payload that this rank passes to a collective for others, and receives from others. An all-gather sends
the rank's own block and receives all other blocks; an all-reduce sends and receives the whole buffer once. The bytes
that the library's algorithm puts on the wire are within a factor of two of that.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neuro_cli.fabric.cost import CostModel


@dataclass
class Traffic:
    """Payload bytes since the start."""

    sent: int = 0
    received: int = 0


class Exchange(ABC):
    """A collective under way."""

    @abstractmethod
    def test(self) -> bool:
        """Whether the collective is complete. Libraries that move data only when they are called move some now."""

    @abstractmethod
    def wait(self) -> np.ndarray:
        """Wait for the collective and return its outcome."""


class Arrived(Exchange):
    """Completed exchange."""

    def __init__(self, outcome: np.ndarray) -> None:
        self._outcome = outcome

    def test(self) -> bool:
        return True

    def wait(self) -> np.ndarray:
        return self._outcome


class World(ABC):
    """``rank`` of ``size``; it is ``local_rank`` of the ``local_size`` ranks on this machine; ``library`` names the transport."""

    rank = 0
    size = 1
    local_size = 1
    local_rank = 0
    library = "none"
    interface: str | None = None  # through which messages go, where that is known
    cost: CostModel | None = None  # what collectives cost, where the config says it
    emulated = False  # the interface is that of an emulated host: every message must go through it

    def __init__(self) -> None:
        self.traffic = Traffic()

    @abstractmethod
    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        """Blocks of all ranks in rank order, (sum(counts),); rank j gives ``counts[j]`` elements."""

    def all_gather_on_node(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        """:meth:`all_gather` among the ranks of this machine, in the order of their ``local_rank``; no bytes are counted."""
        assert self.local_size == 1
        return own

    @abstractmethod
    def start_all_gather(self, own: np.ndarray, counts: list[int]) -> Exchange:
        """Begin :meth:`all_gather` and return at once; ``own`` must not change until its end."""

    @abstractmethod
    def gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray | None:
        """Outcome of :meth:`all_gather` on rank 0 alone; None elsewhere."""

    @abstractmethod
    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        """Block ``rank`` of every rank's ``blocks``, in rank order; block j has the same length on all ranks."""

    @abstractmethod
    def all_reduce(self, values: np.ndarray) -> None:
        """Replace ``values`` by their sum over the ranks; every rank gets the same bits."""

    @abstractmethod
    def start_all_reduce(self, values: np.ndarray) -> Exchange:
        """Begin :meth:`all_reduce` and return at once; ``values`` belongs to the exchange, which gives the sums."""

    @abstractmethod
    def send(self, rank: int, values: np.ndarray) -> None:
        """Send ``values`` to another rank, which must call :meth:`receive`."""

    @abstractmethod
    def receive(self, rank: int, count: int, dtype: np.dtype) -> np.ndarray:
        """Receive ``count`` elements from another rank."""

    @abstractmethod
    def broadcast(self, data: bytes) -> bytes:
        """Broadcast rank 0's ``data`` to every rank."""

    @abstractmethod
    def abort(self, code: int) -> None:
        """End every rank of the world now."""

    def interface_traffic(self) -> Traffic | None:
        """Bytes that the kernel counted at this rank's interface since the start; None where it is not known."""
        return Traffic(*interface_bytes(self.interface)) if self.interface else None

    def settle(self) -> None:
        """Wait until all earlier messages have arrived: the second message comes after the first has been answered."""
        self.any(False)
        self.any(False)

    def refuse_shortcut(self) -> None:
        """Raise RuntimeError (on all ranks) when messages bypassed the interface that all of them should have crossed.

        An emulated network that MPI does not use, because it found shared memory, would be measured as a fast one.
        """
        handed = self.traffic.sent
        self.settle()
        counted = self.interface_traffic() if self.emulated else None
        if self.any(counted is not None and counted.sent < handed):
            raise RuntimeError(f"{self.library} does not send over the emulated network: {handed} bytes to send, {counted} there")

    def any(self, flag: bool) -> bool:
        """Whether any rank's flag is set, the same on every rank."""
        return bool(self.all_gather(np.array([flag], np.uint8), [1] * self.size).any())


class SingleProcess(World):
    """A world of one process."""

    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        return own

    def start_all_gather(self, own: np.ndarray, counts: list[int]) -> Exchange:
        return Arrived(own)

    def gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray | None:
        return own

    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        return blocks

    def all_reduce(self, values: np.ndarray) -> None:
        return None

    def start_all_reduce(self, values: np.ndarray) -> Exchange:
        return Arrived(values)

    def send(self, rank: int, values: np.ndarray) -> None:
        raise AssertionError("a world of one has no other rank to send to")

    def receive(self, rank: int, count: int, dtype: np.dtype) -> np.ndarray:
        raise AssertionError("a world of one has no other rank to receive from")

    def broadcast(self, data: bytes) -> bytes:
        return data

    def abort(self, code: int) -> None:
        raise SystemExit(code)


def shares(total: int, parts: int) -> list[tuple[int, int]]:
    """Shares [j total / parts, (j + 1) total / parts) of every rank j, which together cover ``total``."""
    return [(part * total // parts, (part + 1) * total // parts) for part in range(parts)]


COUNTERS = Path("/proc/net/dev")  # of the network namespace of the process


def interface_bytes(name: str) -> tuple[int, int]:
    """Bytes (sent, received) since the interface exists: payload, headers, acknowledgements, of all processes. Raises OSError."""
    for line in COUNTERS.read_text().splitlines():
        interface, _, numbers = line.partition(":")
        if interface.strip() == name:
            fields = numbers.split()
            return int(fields[8]), int(fields[0])
    raise OSError(f"there is no network interface {name}")
