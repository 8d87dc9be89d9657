"""MPI, through mpi4py: the one module that imports it. Buffers only, nothing is pickled.

Importing ``mpi4py.MPI`` starts MPI, so it happens when a world is asked for and not before.
"""

import os
import sys
from functools import cache
from typing import Any

import numpy as np

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.base import Arrived, Exchange, World

FIX = "pip install 'neuro-cli[mpi]' brings MPICH"

# what the launchers set for their ranks: MPICH and other PMI ones, PMIx (Open MPI 5), Open MPI, Intel MPI
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")


def launched() -> bool:
    """Whether an MPI launcher started this process. Looks at the environment only."""
    return any(name in os.environ for name in (*_SIZE_VARIABLES, *_RANK_VARIABLES))


class MpiExchange(Exchange):
    """An all-gather under way. The buffers are held here: MPI reads and writes them until it is done."""

    def __init__(self, request: Any, own: np.ndarray, gathered: np.ndarray) -> None:
        self._request, self._own, self._gathered = request, own, gathered

    def test(self) -> bool:
        return bool(self._request.Test())

    def wait(self) -> np.ndarray:
        self._request.Wait()
        return self._gathered


class MpiWorld(World):
    """MPI_COMM_WORLD. Raises UserError when no MPI library can be loaded."""

    def __init__(self) -> None:
        super().__init__()
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"MPI is not there ({reason}): {FIX}, or choose distribution=local") from error
        self._mpi: Any = MPI
        self._comm = MPI.COMM_WORLD
        self.rank, self.size = self._comm.rank, self._comm.size
        node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_size = node.size
        node.Free()
        self.library = MPI.Get_library_version().split("\n")[0].strip().rstrip("\x00")

    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        if self.size == 1:
            return own
        gathered = np.empty(sum(counts), own.dtype)
        self._comm.Allgatherv(np.ascontiguousarray(own), [gathered, counts])
        self._count(own.nbytes, gathered.nbytes - own.nbytes)
        return gathered

    def start_all_gather(self, own: np.ndarray, counts: list[int]) -> Exchange:
        if self.size == 1:
            return Arrived(own)
        own = np.ascontiguousarray(own)
        gathered = np.empty(sum(counts), own.dtype)
        request = self._comm.Iallgatherv(own, [gathered, counts])
        self._count(own.nbytes, gathered.nbytes - own.nbytes)
        return MpiExchange(request, own, gathered)

    def gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray | None:
        if self.size == 1:
            return own
        gathered = np.empty(sum(counts), own.dtype) if self.rank == 0 else None
        self._comm.Gatherv(np.ascontiguousarray(own), None if gathered is None else [gathered, counts], root=0)
        if gathered is None:
            self._count(own.nbytes, 0)
        else:
            self._count(0, gathered.nbytes - own.nbytes)
        return gathered

    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        if self.size == 1:
            return blocks
        own = blocks[self.rank]
        received = np.empty(self.size * own.size, own.dtype)
        self._comm.Alltoallv([np.concatenate(blocks), [block.size for block in blocks]], [received, [own.size] * self.size])
        self._count(sum(block.nbytes for block in blocks) - own.nbytes, received.nbytes - own.nbytes)
        return list(received.reshape(self.size, -1))

    def all_reduce(self, values: np.ndarray) -> None:
        if self.size == 1:
            return
        self._comm.Allreduce(self._mpi.IN_PLACE, values, op=self._mpi.SUM)
        self._count(values.nbytes, values.nbytes)

    def broadcast(self, data: bytes) -> bytes:
        if self.size == 1:
            return data
        length = np.array([len(data)], np.int64)
        self._comm.Bcast(length, root=0)
        buffer = np.frombuffer(data, np.uint8).copy() if self.rank == 0 else np.empty(int(length[0]), np.uint8)
        self._comm.Bcast(buffer, root=0)
        if self.rank == 0:
            self._count(buffer.nbytes + 8, 0)
        else:
            self._count(0, buffer.nbytes + 8)
        return buffer.tobytes()

    def abort(self, code: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        if self.size == 1:
            raise SystemExit(code)
        self._comm.Abort(code)

    def _count(self, sent: int, received: int) -> None:
        self.traffic.sent += sent
        self.traffic.received += received


@cache
def mpi_world() -> MpiWorld:
    """The one MPI world of this process."""
    return MpiWorld()
