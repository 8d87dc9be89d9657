"""A clean stop: on a signal or at the time limit the present generation ends, then a checkpoint is written."""

import signal
import time
from types import FrameType

# SIGUSR1: Open MPI's mpiexec passes it on, while on the other two it leaves the ranks one second to live
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class StopRequest:
    """Catches the signals while active; a second one of the same kind acts as it always did."""

    def __init__(self, time_limit: float | None) -> None:
        self._limit = time_limit
        self._begun = time.monotonic()
        self.reason = ""

    def __enter__(self) -> "StopRequest":
        self._before = {name: signal.signal(name, self._note) for name in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.reason = signal.Signals(number).name
        signal.signal(number, self._before[signal.Signals(number)])

    def wanted(self) -> bool:
        """Whether this rank wants to stop."""
        if not self.reason and self._limit is not None and time.monotonic() - self._begun > self._limit:
            self.reason = f"time_limit={self._limit:g} s"
        return bool(self.reason)
