"""Interface of a world of ranks: a few collectives on buffers, with the bytes of each counted.

Bytes are the payload that this rank passes to a collective for others, and receives from others. An all-gather sends the
rank's block and receives all other blocks; an all-reduce sends and receives the buffer once. The algorithm of the MPI library
puts at most twice as many bytes on the wire, and at least half.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuro_cli.fabric.cost import CostModel


@dataclass
class Traffic:
    """Payload bytes of a rank since its start."""

    sent: int = 0
    received: int = 0


class Exchange(ABC):
    """Collective that is not complete yet."""

    @abstractmethod
    def test(self) -> bool:
        """Return whether the collective is complete. MPI libraries may move data only in such calls."""

    @abstractmethod
    def wait(self) -> np.ndarray:
        """Wait for the collective exchange and return its outcome."""


class Arrived(Exchange):
    """Completed exchange."""

    def __init__(self, outcome: np.ndarray) -> None:
        self._outcome = outcome

    def test(self) -> bool:
        return True

    def wait(self) -> np.ndarray:
        return self._outcome


class World(ABC):
    """Rank ``rank`` of ``size``, which is ``local_rank`` of ``local_size`` on its machine; ``library`` names the transport."""

    rank = 0
    size = 1
    local_size = 1
    local_rank = 0
    library = "none"
    interface: str | None = None  # network interface of the messages; None: not given
    cost: CostModel | None = None  # cost of collectives; None: not in the config
    emulated = False  # every message must cross the interface of an emulated host

    def __init__(self) -> None:
        self.traffic = Traffic()

    @abstractmethod
    def all_gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        """Return the blocks of all ranks in rank order, (sum(counts),); rank j gives ``counts[j]`` elements."""

    def all_gather_on_node(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        """Gather among the ranks of this machine, in the order of their ``local_rank``. Bytes are not counted."""
        assert self.local_size == 1
        return block

    @abstractmethod
    def start_all_gather(self, block: np.ndarray, counts: list[int]) -> Exchange:
        """Begin :meth:`all_gather` and return at once; ``block`` must not change until its end."""

    @abstractmethod
    def gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray | None:
        """Return the outcome of :meth:`all_gather` on rank 0; None on other ranks."""

    @abstractmethod
    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        """Return block ``rank`` of every rank's ``blocks``, in rank order; block j has the same length on all ranks."""

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

    def on_device(self, device: Any) -> Any:
        """Return what moves tensors of the torch device ``device`` between ranks (DeviceRanks); None: the host does."""
        return None

    @abstractmethod
    def abort(self, code: int) -> None:
        """End every rank of the world now."""

    def _count(self, sent: int, received: int) -> None:
        if self.size > 1:
            self.traffic.sent += sent
            self.traffic.received += received

    def interface_traffic(self) -> Traffic | None:
        """Return the bytes that the kernel counted at this rank's interface since the start; None for an unknown interface."""
        return Traffic(*interface_bytes(self.interface)) if self.interface else None

    def settle(self) -> None:
        """Wait until all earlier messages have arrived: the second message follows the answer to the first."""
        self.any(False)
        self.any(False)

    def refuse_shortcut(self) -> None:
        """Raise RuntimeError (on all ranks) when messages bypassed the emulated interface.

        MPI may have used shared memory, and measurements would show a fast network.
        """
        handed = self.traffic.sent
        self.settle()
        counted = self.interface_traffic() if self.emulated else None
        if self.any(counted is not None and counted.sent < handed):
            raise RuntimeError(f"{self.library} does not send over the emulated network: {handed} bytes to send, {counted} there")

    def any(self, flag: bool) -> bool:
        """Return whether any rank's flag is set, the same on every rank."""
        return bool(self.all_gather(np.array([flag], np.uint8), [1] * self.size).any())


class SingleProcess(World):
    """World of one process."""

    def all_gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        return block

    def start_all_gather(self, block: np.ndarray, counts: list[int]) -> Exchange:
        return Arrived(block)

    def gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray | None:
        return block

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


COUNTERS = Path("/proc/net/dev")  # counters of the process's network namespace


def interface_bytes(name: str) -> tuple[int, int]:
    """Return bytes (sent, received) of an interface since it exists, headers and all processes included. Raises OSError."""
    for line in COUNTERS.read_text().splitlines():
        interface, _, numbers = line.partition(":")
        if interface.strip() == name:
            fields = numbers.split()
            return int(fields[8]), int(fields[0])
    raise OSError(f"there is no network interface {name}")
