"""MPI through mpi4py, which only this module imports. Buffers only, nothing is pickled.

Importing ``mpi4py.MPI`` starts MPI, so it happens only when a world is needed.
"""

import os
import sys
import time
import warnings
from functools import cache
from typing import Any

import numpy as np

from neuro_cli.core.errors import BAD_INPUT, UserError
from neuro_cli.core.install import install
from neuro_cli.core.machine.cores import core_limit
from neuro_cli.fabric.asleep import LocalBarrier, local_barrier, wait_asleep
from neuro_cli.fabric.base import Arrived, Exchange, World

FIX = f"{install('mpi')} brings MPICH"
LAST_WORDS = 0.5  # seconds from an error's line to the end of all ranks
NAP = 0.01  # longest sleep between two tests for a broadcast, in seconds
SHORT_NAP = 0.001  # the same before other collectives, where ranks share cores
SHARE_CORES = "NEURO_SHARE_CORES"  # 1: ranks sleep while they wait; 0: they do not; else where they are more than the cores
MOST_CORES = 8192  # of a machine

# variables that launchers set for their ranks: MPICH and other PMI ones, PMIx (Open MPI 5), Open MPI, Intel MPI
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")


def launched() -> bool:
    """Tell whether an MPI launcher started this process, by its environment."""
    return any(name in os.environ for name in (*_SIZE_VARIABLES, *RANK_VARIABLES))


def library_name(version: str) -> str:
    """Name and version of an MPI library, from MPI_Get_library_version: Open MPI appends its builder."""
    return " ".join(version.split("\n")[0].partition(",")[0].rstrip("\x00").split())


def nearly_alike(counts: list[int]) -> bool:
    """Tell whether padding the blocks to the length of the longest adds little to send."""
    return max(counts) * len(counts) <= sum(counts) + sum(counts) // 8


class MpiExchange(Exchange):
    """Collective under way. It holds the buffers: MPI reads ``own`` and writes ``outcome`` until it is complete."""

    def __init__(self, request: Any, own: np.ndarray, outcome: np.ndarray, nap: float | None) -> None:
        self._request, self._own, self._outcome, self._nap = request, own, outcome, nap

    def test(self) -> bool:
        return bool(self._request.Test())

    def wait(self) -> np.ndarray:
        if self._nap is None:
            self._request.Wait()
        else:
            wait_asleep(self._request, self._nap)
        return self._outcome


class MpiWorld(World):
    """World of MPI_COMM_WORLD; a world of one, without MPI_Init, where no launcher started this process.

    Raises UserError when no MPI library can be loaded, or when it does not know the launcher's ranks.
    """

    def __init__(self) -> None:
        super().__init__()
        try:
            import mpi4py

            # no MPI_Init in a world of one: an Open MPI without a launcher leaves files in /tmp and /dev/shm
            mpi4py.rc.initialize = launched()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "suspicious MPI execution environment")  # an error of ours follows
                from mpi4py import MPI
        except (ImportError, RuntimeError, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"MPI is not there ({reason}): {FIX}, or choose distribution=local") from error
        self._mpi: Any = MPI
        self._comm = MPI.COMM_WORLD
        self._nap: float | None = None  # longest sleep of a rank that waits; None where each has a core
        self._barrier: LocalBarrier | None = None
        self.library = library_name(MPI.Get_library_version())
        if not MPI.Is_initialized():
            return
        self.rank, self.size = self._comm.rank, self._comm.size
        self._check_launcher()
        self._node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_size, self.local_rank = self._node.size, self._node.rank
        if self._shares_cores(self._node):
            self._nap = SHORT_NAP
            self._barrier = local_barrier(self._node)

    def _shares_cores(self, node: Any) -> bool:
        """Compare ranks and usable cores of each machine: where ranks are more, one that waits takes another's core.

        The same on every rank, for MPI's nonblocking collectives do not meet its blocking ones.
        """
        usable = np.zeros(MOST_CORES, np.uint8)
        usable[[core for core in os.sched_getaffinity(0) if core < MOST_CORES]] = 1
        node.Allreduce(self._mpi.IN_PLACE, usable, op=self._mpi.MAX)  # a launcher may bind each rank to its own
        told = os.environ.get(SHARE_CORES)
        sharing = np.array([told == "1" if told in ("0", "1") else node.size > min(usable.sum(), core_limit())], np.uint8)
        self._comm.Allreduce(self._mpi.IN_PLACE, sharing, op=self._mpi.MAX)
        return bool(sharing[0])

    def _move(self, collective: str, *buffers: Any, among: Any = None) -> None:
        """Run a collective that only moves numbers: MPI's blocking one, or where ranks share cores the other, asleep.

        Where every rank has to wait for every other, those of this machine meet first.
        """
        ranks = among or self._comm
        if self._nap is None:
            getattr(ranks, collective)(*buffers)
        else:
            if self._barrier is not None and collective != "Gatherv":
                self._barrier.wait()
            wait_asleep(getattr(ranks, f"I{collective.lower()}")(*buffers), self._nap)

    def _check_launcher(self) -> None:
        """Raise UserError when the launcher started more ranks than this world has: it belongs to another MPI."""
        started = max((int(os.environ[name]) for name in _SIZE_VARIABLES if name in os.environ), default=1)
        if self.size > 1 or started == 1:
            return
        if next(os.environ[name] for name in RANK_VARIABLES if name in os.environ) != "0":
            time.sleep(2)  # each rank is alone and comes here; the first is to print, before its end takes the others
            raise SystemExit(BAD_INPUT)
        raise UserError(
            f"mpiexec started {started} ranks, but they cannot meet: it belongs to another MPI than the library of this Python, "
            f"{self.library}; neuro doctor tries the one that fits"
        )

    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        if self.size == 1:
            return own
        gathered = self._gathered_alike(own, counts) if nearly_alike(counts) else self._gathered(own, counts)
        self._count(own.nbytes, gathered.nbytes - own.nbytes)
        return gathered

    def _gathered(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        gathered = np.empty(sum(counts), own.dtype)
        self._move("Allgatherv", np.ascontiguousarray(own), [gathered, counts])
        return gathered

    def _gathered_alike(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        """Gather by Allgather, padded to one length: MPICH sends the blocks of Allgatherv in sequential pieces of 32 KiB."""
        longest = max(counts)
        sent = np.ascontiguousarray(own)
        if own.size < longest:
            sent = np.empty(longest, own.dtype)
            sent[: own.size] = own
        gathered = np.empty(longest * self.size, own.dtype)
        self._move("Allgather", sent, gathered)
        if sum(counts) == gathered.size:
            return gathered
        return np.concatenate([block[:count] for block, count in zip(gathered.reshape(self.size, -1), counts, strict=True)])

    def all_gather_on_node(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        if self.local_size == 1:
            return own
        gathered = np.empty(sum(counts), own.dtype)
        self._move("Allgatherv", np.ascontiguousarray(own), [gathered, counts], among=self._node)
        return gathered

    def start_all_gather(self, own: np.ndarray, counts: list[int]) -> Exchange:
        if self.size == 1:
            return Arrived(own)
        own = np.ascontiguousarray(own)
        gathered = np.empty(sum(counts), own.dtype)
        request = self._comm.Iallgatherv(own, [gathered, counts])
        self._count(own.nbytes, gathered.nbytes - own.nbytes)
        return MpiExchange(request, own, gathered, self._nap)

    def gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray | None:
        if self.size == 1:
            return own
        gathered = np.empty(sum(counts), own.dtype) if self.rank == 0 else None
        self._move("Gatherv", np.ascontiguousarray(own), None if gathered is None else [gathered, counts])
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
        sent = [np.concatenate(blocks), [block.size for block in blocks]]
        self._move("Alltoallv", sent, [received, [own.size] * self.size])
        self._count(sum(block.nbytes for block in blocks) - own.nbytes, received.nbytes - own.nbytes)
        return list(received.reshape(self.size, -1))

    def all_reduce(self, values: np.ndarray) -> None:
        if self.size == 1:
            return
        if self._nap is not None:  # Iallreduce may add in another order: the rest are awaited first
            if self._barrier is not None:
                self._barrier.wait()
            if self._barrier is None or self.local_size < self.size:
                wait_asleep(self._comm.Ibarrier(), self._nap)
        self._comm.Allreduce(self._mpi.IN_PLACE, values, op=self._mpi.SUM)
        self._count(values.nbytes, values.nbytes)

    def start_all_reduce(self, values: np.ndarray) -> Exchange:
        if self.size == 1:
            return Arrived(values)
        request = self._comm.Iallreduce(self._mpi.IN_PLACE, values, op=self._mpi.SUM)
        self._count(values.nbytes, values.nbytes)
        return MpiExchange(request, values, values, self._nap)

    def send(self, rank: int, values: np.ndarray) -> None:
        self._comm.Send(np.ascontiguousarray(values), rank)
        self._count(values.nbytes, 0)

    def receive(self, rank: int, count: int, dtype: np.dtype) -> np.ndarray:
        values = np.empty(count, dtype)
        if self._nap is None:
            self._comm.Recv(values, rank)
        else:
            wait_asleep(self._comm.Irecv(values, rank), self._nap)
        self._count(0, values.nbytes)
        return values

    def broadcast(self, data: bytes) -> bytes:
        if self.size == 1:
            return data
        length = np.array([len(data)], np.int64)
        wait_asleep(self._comm.Ibcast(length, root=0), NAP)
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
        # the launcher's proxy has the printed text, and drops what it has not passed on when it has to end all ranks
        time.sleep(LAST_WORDS)
        self._comm.Abort(code)

    def _count(self, sent: int, received: int) -> None:
        self.traffic.sent += sent
        self.traffic.received += received


class Meeting:
    """Place where all ranks wait for each other, apart from all other messages. Made by all of them together."""

    def __init__(self) -> None:
        self._comm = mpi_world()._comm.Dup()

    def held(self, seconds: float | None) -> bool:
        """Wait, without using the processor, until every rank is here; False if one is not within ``seconds``."""
        request = self._comm.Ibarrier()
        deadline = None if seconds is None else time.monotonic() + seconds
        while not request.Test():
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(NAP)
        return True


@cache
def mpi_world() -> MpiWorld:
    """The one MPI world of this process."""
    return MpiWorld()
