"""World of torch.distributed's ranks: torchrun, accelerate, or any launcher that sets RANK, WORLD_SIZE and MASTER_ADDR.

Gloo moves buffers of the host between pairs of ranks. Sums are formed in rank order, so their bits depend neither on gloo's
algorithms nor on its version. Nothing is pickled.
"""

import atexit
import hashlib
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from neuro_cli.core.errors import UserError
from neuro_cli.core.exit_codes import FAILED
from neuro_cli.fabric.base import Exchange, World
from neuro_cli.fabric.mpi import LAST_WORDS
from neuro_cli.fabric.shares import shares
from neuro_cli.fabric.torchrun_environment import AGENT_STORE, TorchPlace, meeting_seconds, met, torch_place

FOREVER = timedelta(days=30)  # a rank waits for the others as long as they live; gloo asks for a bound
ENDED = "ended"  # key of the store: a rank has said why it ends the world
WHOLE = 64 * 1024  # bytes up to which a sum gathers all values; above, each rank adds a share
Transfer = tuple[int, Any]  # the other rank, and torch's handle


class RankLostError(RuntimeError):
    """Rank that ended, or cannot be reached, while others wait for it."""


class TorchExchange(Exchange):
    """Exchange of torch.distributed under way. It keeps ``block`` alive; a sum of ``rows`` adds ``gathered`` in rank order."""

    def __init__(
        self, world: "TorchWorld", transfers: list[Transfer], block: np.ndarray, gathered: np.ndarray, rows: int = 0
    ) -> None:
        self._world, self._transfers, self._block, self._gathered, self._rows = world, transfers, block, gathered, rows

    def test(self) -> bool:
        return not self._transfers  # gloo's own threads move the data

    def wait(self) -> np.ndarray:
        self._world.complete(self._transfers)
        self._transfers = []
        if self._rows:
            self._gathered, self._rows = in_order(self._gathered.reshape(self._rows, -1)), 0
        return self._gathered


class TorchWorld(World):
    """World of all ranks of ``place``. Raises UserError where they cannot meet.

    A script that has called ``init_process_group`` keeps its group: this world makes another one of the same ranks.
    """

    def __init__(self, place: TorchPlace) -> None:
        super().__init__()
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # else pages of C++ frames precede each line of ours
        import torch
        import torch.distributed as dist

        self._torch, self._dist = torch, dist
        self.rank, self.size = place.rank, place.size
        self.library = f"torch.distributed {torch.__version__.partition('+')[0]}, gloo"
        self._agent = os.environ.get(AGENT_STORE) == "True"
        if place.one_machine:  # gloo would listen where the machine's name points
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        timeout = timedelta(seconds=meeting_seconds())
        self._on_device: dict[Any, Any] = {}
        self._store: Any = None
        self._group: Any = None
        if dist.is_initialized():
            self._group = dist.new_group(backend="gloo", timeout=timeout)
        else:
            self._store = met(place)
            try:
                dist.init_process_group("gloo", store=self._store, rank=self.rank, world_size=self.size, timeout=timeout)
            except RuntimeError as error:
                raise UserError(
                    f"the ranks at MASTER_ADDR={place.address} cannot connect: {str(error).splitlines()[0]}"
                ) from error
        self._find_neighbours()
        atexit.register(self._leave)  # else torch 2.14 may end a rank by SIGABRT after its last line

    def _leave(self) -> None:
        """Leave the groups of this world, and no group of the script."""
        if self._store is not None and self._dist.is_initialized():
            self._dist.destroy_process_group()

    def _find_neighbours(self) -> None:
        """Set this rank's place among those of its machine."""
        boot = Path("/proc/sys/kernel/random/boot_id")
        name = socket.gethostname() + (boot.read_text() if boot.exists() else "")
        here = np.frombuffer(hashlib.sha256(name.encode()).digest(), np.uint8)
        machines = self._gathered(here, [here.size] * self.size).reshape(self.size, -1)
        self._neighbours = [rank for rank in range(self.size) if (machines[rank] == here).all()]
        self.local_size, self.local_rank = len(self._neighbours), self._neighbours.index(self.rank)

    def all_gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        return self.start_all_gather(block, counts).wait()

    def all_gather_on_node(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        return self._gathered(block, counts, self._neighbours)

    def start_all_gather(self, block: np.ndarray, counts: list[int]) -> Exchange:
        gathered = np.empty(sum(counts), block.dtype)
        self._count(block.nbytes, gathered.nbytes - block.nbytes)
        return TorchExchange(self, self._start(block, gathered, counts, range(self.size)), block, gathered)

    def gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray | None:
        if self.rank:
            self.send(0, block)
            return None
        gathered = np.empty(sum(counts), block.dtype)
        parts = list(split(gathered, counts))
        parts[0][:] = block
        self.complete([self._receive(rank, parts[rank]) for rank in range(1, self.size)])
        self._count(0, gathered.nbytes - block.nbytes)
        return gathered

    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        mine = blocks[self.rank]
        received = [mine if rank == self.rank else np.empty_like(mine) for rank in range(self.size)]
        others = self._others(range(self.size))
        transfers = [self._receive(rank, received[rank]) for rank in others]
        self.complete(transfers + [self._send(rank, blocks[rank]) for rank in others])
        self._count(sum(block.nbytes for block in blocks) - mine.nbytes, (self.size - 1) * mine.nbytes)
        return received

    def all_reduce(self, values: np.ndarray) -> None:
        """Replace ``values`` by their sum in rank order. Each rank adds a share of a long message, then all gather the shares."""
        before = self.traffic.sent, self.traffic.received
        if values.nbytes <= WHOLE:
            values[...] = self.start_all_reduce(values).wait().reshape(values.shape)
        else:
            counts = [stop - start for start, stop in shares(values.size, self.size)]
            parts = self.all_to_all(list(split(values.reshape(-1), counts)))
            values[...] = self.all_gather(in_order(parts), counts).reshape(values.shape)
        self.traffic.sent, self.traffic.received = before  # the interface counts the buffer once, as for every library
        self._count(values.nbytes, values.nbytes)

    def start_all_reduce(self, values: np.ndarray) -> Exchange:
        gathered = np.empty(self.size * values.size, values.dtype)
        self._count(values.nbytes, values.nbytes)
        transfers = self._start(values, gathered, [values.size] * self.size, range(self.size))
        return TorchExchange(self, transfers, values, gathered, self.size)

    def on_device(self, device: Any) -> Any:
        if device not in self._on_device:
            from neuro_cli.fabric.torch_device import device_ranks

            self._on_device[device] = device_ranks(self, device, meeting_seconds(), self._count)
        return self._on_device[device]

    def send(self, rank: int, values: np.ndarray) -> None:
        self.complete([self._send(rank, values)])
        self._count(values.nbytes, 0)

    def receive(self, rank: int, count: int, dtype: np.dtype) -> np.ndarray:
        values = np.empty(count, dtype)
        self.complete([self._receive(rank, values)])
        self._count(0, values.nbytes)
        return values

    def broadcast(self, data: bytes) -> bytes:
        length = np.array([len(data)], np.int64)
        buffer = self._from_first(np.frombuffer(data, np.uint8), self._from_first(length, length))
        self._count(*((buffer.nbytes + 8, 0) if self.rank == 0 else (0, buffer.nbytes + 8)))
        return buffer.tobytes()

    def abort(self, code: int) -> NoReturn:
        """End this rank; the others lose it, and end quietly where they can learn that it has spoken."""
        sys.stdout.flush()
        sys.stderr.flush()
        if self._agent and self._store is not None:
            self._store.set(ENDED, str(code))
        time.sleep(LAST_WORDS)
        os._exit(code)

    def complete(self, transfers: Sequence[Transfer]) -> None:
        """Wait for ``transfers``. Raises RankLostError on one rank where another one has ended; the rest end quietly."""
        for other, handle in transfers:
            try:
                handle.wait(FOREVER)
            except RuntimeError as error:
                self._lost(other, error)

    def _lost(self, other: int, error: RuntimeError) -> NoReturn:
        """Report the lost rank ``other``: one rank says so, as with MPI, whose launcher ends all others."""
        if self.rank != (0 if other else 1) or self._said():
            sys.stdout.flush()
            os._exit(FAILED)
        text = f"rank {other} of {self.size} ended before the others ({str(error).split('. ')[0].rpartition('] ')[2]})"
        raise RankLostError(f"{text}; neuro resume continues from the last checkpoint") from error

    def _said(self) -> bool:
        """Return whether a rank has printed why it ended the world."""
        try:
            return self._agent and self._store is not None and bool(self._store.check([ENDED]))
        except RuntimeError:
            return False

    def _gathered(self, block: np.ndarray, counts: list[int], ranks: Sequence[int] | None = None) -> np.ndarray:
        """Gather blocks of ``ranks``, by default of all, without a count of bytes."""
        gathered = np.empty(sum(counts), block.dtype)
        self.complete(self._start(block, gathered, counts, ranks or range(self.size)))
        return gathered

    def _start(self, block: np.ndarray, gathered: np.ndarray, counts: list[int], ranks: Sequence[int]) -> list[Transfer]:
        """Begin to exchange blocks with ``ranks``: each block arrives in its place."""
        parts = dict(zip(ranks, split(gathered, counts), strict=True))
        parts[self.rank][:] = block.reshape(-1)
        others = self._others(ranks)
        return [self._receive(rank, parts[rank]) for rank in others] + [self._send(rank, block) for rank in others]

    def _others(self, ranks: Sequence[int]) -> list[int]:
        """Return the other ranks; each rank begins with the one after it, so that no rank is everybody's first."""
        place = list(ranks).index(self.rank)
        return [*ranks[place + 1 :], *ranks[:place]]

    def _from_first(self, values: np.ndarray, length: np.ndarray) -> np.ndarray:
        """Return rank 0's ``values``, ``length[0]`` elements on the other ranks."""
        if self.rank:
            values = np.empty(1 if values is length else int(length[0]), values.dtype)
            self.complete([self._receive(0, values)])
        else:
            self.complete([self._send(rank, values) for rank in range(1, self.size)])
        return values

    def _send(self, rank: int, values: np.ndarray) -> Transfer:
        return self._transfer(rank, self._dist.isend, np.require(values, requirements=("C", "W")))

    def _receive(self, rank: int, values: np.ndarray) -> Transfer:
        return self._transfer(rank, self._dist.irecv, values)

    def _transfer(self, rank: int, begin: Any, values: np.ndarray) -> Transfer:
        # bytes: gloo has no integers of 16 bits, and no type of it changes what arrives
        try:
            return rank, begin(self._torch.from_numpy(values.reshape(-1).view(np.uint8)), rank, group=self._group)
        except RuntimeError as error:
            self._lost(rank, error)


def in_order(rows: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return the sum of ``rows``, from the first to the last."""
    total = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


def split(values: np.ndarray, counts: Sequence[int]) -> Iterator[np.ndarray]:
    """Yield views of ``values`` with ``counts`` elements each, as torch.distributed sends them."""
    stop = 0
    for count in counts:
        start, stop = stop, stop + count
        yield values[start:stop]


@cache
def torch_world() -> TorchWorld:
    """Return the one world of torch.distributed's ranks in this process."""
    return TorchWorld(torch_place())
