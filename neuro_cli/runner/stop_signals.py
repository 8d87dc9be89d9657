"""Early ends of a run by a signal, the time limit or a file. The present generation is finished and a checkpoint written.

Signals are SIGTERM and SIGINT; SIGUSR1, which Open MPI's mpiexec forwards (after the other two it kills its ranks within one
second); and SIGUSR2, with which SLURM can announce the end of a job's time.
"""

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

FILE = "stop"  # file in a run folder that stops the run after its generation
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# signals that this process received: after one, a sweep starts no further job and SLURM must queue the job again
_heard: list[str] = []


def hear(number: int, frame: FrameType | None = None) -> None:
    """Note a signal: it stops the present run, or the next one after its first generation."""
    _heard.append(signal.Signals(number).name)


def heard() -> list[str]:
    """Return the names of the signals that this process received, in order."""
    return list(_heard)


def forget() -> None:
    """Forget all signals that ask for an early stop, for the next run."""
    _heard.clear()


def ask_to_stop(run: Path, reason: str) -> None:
    """Ask the process that trains in the folder ``run`` to stop; no effect on a run that has ended."""
    with suppress(OSError):
        (run / FILE).write_text(reason)


class StopRequest:
    """Wish to stop: catches signals while active. A second one of the same kind has its usual effect, except SIGUSR2.

    Outside the main thread, where Python has no signals, only the time limit and the file ``stop`` of the folder ``run`` count;
    a file of an earlier session does not.
    """

    def __init__(self, time_limit: float | None, run: Path | None = None) -> None:
        self._limit = time_limit
        self._file = None if run is None else run / FILE
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
        self.begun = time.monotonic()
        self.reason = ""

    def __enter__(self) -> "StopRequest":
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is not threading.main_thread():
            return self
        self._before = {name: signal.signal(name, self._note) for name in SIGNALS}
        # SLURM may send it several times, to the job's processes and through srun; all mean one stop
        self._before[signal.SIGUSR2] = signal.signal(signal.SIGUSR2, hear)
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        hear(number)
        signal.signal(number, self._before[signal.Signals(number)])

    def wanted(self) -> bool:
        """Return whether this rank wants to stop early."""
        if not self.reason and _heard:
            self.reason = _heard[0]
        if not self.reason and self._limit is not None and time.monotonic() - self.begun > self._limit:
            self.reason = f"time_limit={self._limit:g} s"
        if not self.reason and self._file is not None and self._file.exists():
            self.reason = self._file.read_text(errors="replace")[:100].strip() or f"file {FILE}"
        return bool(self.reason)
