"""Tasks on the ranks of an MPI job: every rank runs the task, and rank 0 answers for all.

The ranks may communicate as they like. The answer is that of rank 0, or the error of the first rank that failed. A rank that
fails while others wait for it in a collective ends the job, because nothing else ends their wait.
"""

import io
import sys
from collections.abc import Callable

import numpy as np

from neuro_cli.broker.worker.attempt import Attempt, Ending, Frame, attempt_of, framed, read_frame
from neuro_cli.core.errors import UserError
from neuro_cli.fabric.base import World
from neuro_cli.fabric.mpi import Meeting, mpi_world

PATIENCE = 5.0  # seconds in which the others must end a task after one rank has failed


class TaskWorld:
    """World of ``ranks`` ranks that do tasks together. Raises UserError where the launcher started another number."""

    def __init__(self, ranks: int) -> None:
        self._world: World = mpi_world()
        if self._world.size != ranks:
            raise UserError(f"worker.ranks={ranks}: this process is one of a world of {self._world.size}")
        self._meeting = Meeting()

    @property
    def answers(self) -> bool:
        """True on the rank that reads tasks and writes attempts."""
        return self._world.rank == 0

    def shared(self, frame: Frame | None) -> Frame | None:
        """Share rank 0's message with every rank of the task's world; None at the end of its input."""
        return read_frame(io.BytesIO(self._world.broadcast(b"" if frame is None else framed(*frame))))

    def run(self, work: Callable[[], Attempt]) -> Attempt:
        """Do ``work`` on every rank of the task's world, and return its attempt; on rank 0 that of all of them."""
        attempt = work()
        failed = attempt.ending != Ending.DONE
        if not self._meeting.held(PATIENCE if failed else None):
            print(f"rank {self._world.rank}: {attempt.error}", file=sys.stderr)
            self._world.abort(1)
        errors = self._gathered(framed(*attempt.frame()) if failed else b"")
        first = next((text for text in errors if text), None)
        frame = None if first is None else read_frame(io.BytesIO(first))
        return attempt if frame is None else attempt_of(frame)

    def _gathered(self, text: bytes) -> list[bytes]:
        """Gather the texts of all ranks, in their order."""
        size = self._world.size
        lengths = [int(length) for length in self._world.all_gather(np.array([len(text)], np.int64), [1] * size)]
        texts = self._world.all_gather(np.frombuffer(text, np.uint8), lengths).tobytes()
        ends = np.cumsum([0, *lengths])
        return [texts[ends[rank] : ends[rank + 1]] for rank in range(size)]
