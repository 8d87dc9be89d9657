"""MPI through mpi4py, which only this module imports. It moves buffers; nothing is pickled.

The import of ``mpi4py.MPI`` starts MPI, so it waits until a world is needed.
"""

import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from neuro_cli.core.errors import UserError
from neuro_cli.core.exit_codes import BAD_INPUT
from neuro_cli.core.machine.cores import core_limit
from neuro_cli.core.messages.install import install
from neuro_cli.fabric.base import Arrived, Exchange, SingleProcess, World
from neuro_cli.fabric.srun_shell import forget_step

FIX = f"{install('mpi')} brings MPICH"
ALERT = 1e-4  # seconds of waiting without sleep
LAST_WORDS = 0.5  # seconds from an error's line to the end of all ranks
NAP = 0.01  # longest sleep between two tests for a broadcast, in seconds
SHORT_NAP = 0.001  # longest sleep before other collectives, in seconds, where ranks share cores
SHARE_CORES = "NEURO_SHARE_CORES"  # 1: waiting ranks sleep; 0: they poll; else they sleep where ranks outnumber cores
MOST_CORES = 8192  # cores of one machine
LARGEST = 2**31 - 1  # bytes of one message: MPI counts in 32 bits

# variables that launchers set for their ranks: MPICH and other PMI ones, PMIx (Open MPI 5), Open MPI, Intel MPI
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")


def launched() -> bool:
    """Return whether an MPI launcher started this process, by its environment."""
    forget_step()
    return any(name in os.environ for name in (*_SIZE_VARIABLES, *RANK_VARIABLES))


def library_name(version: str) -> str:
    """Return name and version of an MPI library from MPI_Get_library_version, to which Open MPI appends its builder."""
    return " ".join(version.split("\n")[0].partition(",")[0].rstrip("\x00").split())


def nearly_alike(counts: list[int]) -> bool:
    """Return whether padding all blocks to the longest adds few bytes."""
    return max(counts) * len(counts) <= sum(counts) + sum(counts) // 8


def wait_asleep(request: Any, nap: float) -> None:
    """Wait for an MPI request with sleeps up to ``nap`` seconds, at most an eighth of the wait; MPI's own waits poll.

    Ctrl-C is delayed until the end of the wait, as MPI does: rank 0 reports it.
    """
    begun = time.perf_counter()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        while not request.Test():
            waited = time.perf_counter() - begun
            if waited < ALERT:
                os.sched_yield()
            else:
                time.sleep(min(waited / 8, nap))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def mpi_library() -> Any:
    """Return ``mpi4py.MPI``, which starts MPI in a process of a launcher. Raises UserError where no library can be loaded."""
    try:
        import mpi4py

        # no MPI_Init in a world of one: Open MPI without a launcher leaves files in /tmp and /dev/shm
        mpi4py.rc.initialize = launched()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "suspicious MPI execution environment")  # our own error follows
            from mpi4py import MPI
    except (ImportError, RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"MPI is not available ({reason}): {FIX}, or choose distribution=local") from error
    return MPI


class MpiExchange(Exchange):
    """Collective that is not complete yet. It keeps the buffers alive: MPI reads ``block`` and writes ``outcome`` meanwhile."""

    def __init__(self, request: Any, block: np.ndarray, outcome: np.ndarray, nap: float | None) -> None:
        self._request, self._block, self._outcome, self._nap = request, block, outcome, nap

    def test(self) -> bool:
        return bool(self._request.Test())

    def wait(self) -> np.ndarray:
        if self._nap is None:
            self._request.Wait()
        else:
            wait_asleep(self._request, self._nap)
        return self._outcome


class MpiWorld(World):
    """World of MPI_COMM_WORLD, for processes that a launcher started.

    ``largest``: bytes of a message, or of what all ranks give to a gather; longer ones are cut into pieces. Raises UserError when
    no MPI library can be loaded, or when it does not know the launcher's ranks.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        super().__init__()
        self._largest = largest
        self._mpi = mpi_library()
        self._comm = self._mpi.COMM_WORLD
        self._nap: float | None = None  # longest sleep of a waiting rank in seconds; None where each rank has a core
        self.library = library_name(self._mpi.Get_library_version())
        self.rank, self.size = self._comm.rank, self._comm.size
        self._check_launcher()
        self._node = self._comm.Split_type(self._mpi.COMM_TYPE_SHARED)
        self.local_size, self.local_rank = self._node.size, self._node.rank
        if self._shares_cores(self._node):
            self._nap = SHORT_NAP

    def _shares_cores(self, node: Any) -> bool:
        """Return whether ranks outnumber the usable cores of a machine, so that a polling rank takes another one's core.

        All ranks return the same: in MPI, nonblocking collectives do not match blocking ones.
        """
        # sets of cores as bytes, so that the maximum over ranks is their union
        usable = np.zeros(MOST_CORES, np.uint8)
        usable[[core for core in os.sched_getaffinity(0) if core < MOST_CORES]] = 1
        node.Allreduce(self._mpi.IN_PLACE, usable, op=self._mpi.MAX)  # each rank may be bound to one core
        setting = os.environ.get(SHARE_CORES)
        sharing = np.array([setting == "1" if setting in ("0", "1") else node.size > min(usable.sum(), core_limit())], np.uint8)
        self._comm.Allreduce(self._mpi.IN_PLACE, sharing, op=self._mpi.MAX)
        return bool(sharing[0])

    def _move(self, collective: str, *buffers: Any, among: Any = None) -> None:
        """Run a collective that only moves numbers: blocking, or nonblocking with sleeps where ranks share cores."""
        ranks = among or self._comm
        if self._nap is None:
            getattr(ranks, collective)(*buffers)
        else:
            wait_asleep(getattr(ranks, f"I{collective.lower()}")(*buffers), self._nap)

    def _cuts(self, longest: int, itemsize: int, ranks: int = 1) -> Iterator[slice]:
        """Yield pieces of a block of ``longest`` elements; those of ``ranks`` ranks together fit into one message."""
        length = max(1, self._largest // (itemsize * ranks))
        for low in range(0, longest, length):
            yield slice(low, min(low + length, longest))

    def _is_long(self, counts: list[int], itemsize: int) -> bool:
        """Return whether blocks of ``counts`` elements, or the longest in place of each, exceed one message."""
        return max(counts) * len(counts) * itemsize > self._largest

    def _gathered(
        self, collective: str, block: np.ndarray, counts: list[int], out: np.ndarray | None, among: Any = None
    ) -> np.ndarray | None:
        """Gather blocks by ``collective`` into ``out``, which is None on a rank that receives nothing; long ones in pieces."""
        block, rank = np.ascontiguousarray(block).reshape(-1), (among or self._comm).rank
        if not self._is_long(counts, block.itemsize):
            self._move(collective, block, None if out is None else [out, counts], among=among)
            return out
        for cut in self._cuts(max(counts), block.itemsize, len(counts)):
            sizes = [max(0, min(count, cut.stop) - cut.start) for count in counts]
            mine = block[cut.start : cut.start + sizes[rank]]
            piece = None if out is None else np.empty(sum(sizes), block.dtype)
            self._move(collective, mine, None if piece is None else [piece, sizes], among=among)
            if out is None or piece is None:
                continue
            begin = read = 0
            for count, size in zip(counts, sizes, strict=True):
                out[begin + cut.start : begin + cut.start + size] = piece[read : read + size]
                begin, read = begin + count, read + size
        return out

    def _check_launcher(self) -> None:
        """Raise UserError when the launcher started more ranks than this world has: the launcher is of another MPI."""
        started = max((int(os.environ[name]) for name in _SIZE_VARIABLES if name in os.environ), default=1)
        if self.size > 1 or started == 1:
            return
        if next(os.environ[name] for name in RANK_VARIABLES if name in os.environ) != "0":
            time.sleep(2)  # every rank is alone and comes here; the first prints, then its exit ends the others
            raise SystemExit(BAD_INPUT)
        raise UserError(
            f"mpiexec started {started} ranks, but they cannot meet: it belongs to another MPI than the library of this Python, "
            f"{self.library}; neuro doctor tries the one that fits"
        )

    def all_gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        if nearly_alike(counts) and not self._is_long(counts, block.itemsize):
            gathered = self._gathered_alike(block, counts)
        else:
            gathered = np.empty(sum(counts), block.dtype)
            self._gathered("Allgatherv", block, counts, gathered)
        self._count(block.nbytes, gathered.nbytes - block.nbytes)
        return gathered

    def _gathered_alike(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        """Gather by Allgather with padding: MPICH sends the blocks of Allgatherv in sequential pieces of 32 KiB."""
        longest = max(counts)
        sent = np.ascontiguousarray(block)
        if block.size < longest:
            sent = np.empty(longest, block.dtype)
            sent[: block.size] = block
        gathered = np.empty(longest * self.size, block.dtype)
        self._move("Allgather", sent, gathered)
        if sum(counts) == gathered.size:
            return gathered
        return np.concatenate([block[:count] for block, count in zip(gathered.reshape(self.size, -1), counts, strict=True)])

    def all_gather_on_node(self, block: np.ndarray, counts: list[int]) -> np.ndarray:
        gathered = np.empty(sum(counts), block.dtype)
        self._gathered("Allgatherv", block, counts, gathered, self._node)
        return gathered

    def start_all_gather(self, block: np.ndarray, counts: list[int]) -> Exchange:
        if self._is_long(counts, block.itemsize):
            return Arrived(self.all_gather(block, counts))
        block = np.ascontiguousarray(block)
        gathered = np.empty(sum(counts), block.dtype)
        request = self._comm.Iallgatherv(block, [gathered, counts])
        self._count(block.nbytes, gathered.nbytes - block.nbytes)
        return MpiExchange(request, block, gathered, self._nap)

    def gather(self, block: np.ndarray, counts: list[int]) -> np.ndarray | None:
        gathered = np.empty(sum(counts), block.dtype) if self.rank == 0 else None
        self._gathered("Gatherv", block, counts, gathered)
        self._count(*((block.nbytes, 0) if gathered is None else (0, gathered.nbytes - block.nbytes)))
        return gathered

    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        block = blocks[self.rank]
        received = np.empty((self.size, block.size), block.dtype)
        for cut in self._cuts(max(each.size for each in blocks), block.itemsize, self.size):
            parts = [each[cut] for each in blocks]
            piece = np.empty((self.size, parts[self.rank].size), block.dtype)
            sent = [np.concatenate(parts), [part.size for part in parts]]
            self._move("Alltoallv", sent, [piece, [piece.shape[1]] * self.size])
            received[:, cut] = piece
        self._count(sum(block.nbytes for block in blocks) - block.nbytes, received.nbytes - block.nbytes)
        return list(received)

    def all_reduce(self, values: np.ndarray) -> None:
        if self._nap is not None:  # Iallreduce may add in another order than Allreduce: wait for the ranks, then use the latter
            wait_asleep(self._comm.Ibarrier(), self._nap)
        flat = values.reshape(-1)
        for cut in self._cuts(flat.size, flat.itemsize):
            self._comm.Allreduce(self._mpi.IN_PLACE, flat[cut], op=self._mpi.SUM)
        self._count(values.nbytes, values.nbytes)

    def start_all_reduce(self, values: np.ndarray) -> Exchange:
        if values.nbytes > self._largest:
            self.all_reduce(values)
            return Arrived(values)
        request = self._comm.Iallreduce(self._mpi.IN_PLACE, values, op=self._mpi.SUM)
        self._count(values.nbytes, values.nbytes)
        return MpiExchange(request, values, values, self._nap)

    def send(self, rank: int, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values).reshape(-1)
        for cut in self._cuts(values.size, values.itemsize):
            self._comm.Send(values[cut], rank)
        self._count(values.nbytes, 0)

    def receive(self, rank: int, count: int, dtype: np.dtype) -> np.ndarray:
        values = np.empty(count, dtype)
        for cut in self._cuts(values.size, values.itemsize):
            if self._nap is None:
                self._comm.Recv(values[cut], rank)
            else:
                wait_asleep(self._comm.Irecv(values[cut], rank), self._nap)
        self._count(0, values.nbytes)
        return values

    def broadcast(self, data: bytes) -> bytes:
        length = np.array([len(data)], np.int64)
        # the others wait for rank 0 here, maybe for minutes between two jobs: they sleep until the length arrives
        wait_asleep(self._comm.Ibcast(length, root=0), NAP)
        buffer = np.frombuffer(data, np.uint8).copy() if self.rank == 0 else np.empty(int(length[0]), np.uint8)
        for cut in self._cuts(buffer.size, 1):
            self._comm.Bcast(buffer[cut], root=0)
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
        # the launcher drops printed text that it has not passed on when it ends all ranks
        time.sleep(LAST_WORDS)
        self._comm.Abort(code)


class Meeting:
    """Barrier of all ranks, apart from all other messages. All ranks make it together."""

    def __init__(self) -> None:
        world = mpi_world()
        assert isinstance(world, MpiWorld)
        self._comm = world._comm.Dup()

    def held(self, seconds: float | None) -> bool:
        """Sleep until every rank arrives; return False if one does not within ``seconds``."""
        request = self._comm.Ibarrier()
        deadline = None if seconds is None else time.monotonic() + seconds
        while not request.Test():
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(NAP)
        return True


@cache
def mpi_world() -> World:
    """Return the one MPI world of this process: a world of one, without MPI_Init, where no launcher started it."""
    library = mpi_library()
    if library.Is_initialized():
        return MpiWorld()
    world = SingleProcess()
    world.library = library_name(library.Get_library_version())
    return world
