"""Seconds of a generation, by phase."""

import threading
import time
from collections import defaultdict
from contextlib import AbstractContextManager
from typing import Any

PHASES = ("sample", "forward", "communicate", "update")


class Clock:
    """Adds up seconds by phase; ``parallel`` threads of one phase count as one."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._lock = threading.Lock()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return a context whose seconds are added to those of phase ``name``."""
        return _Phase(self, name)

    def add(self, name: str, seconds: float, parallel: int = 1) -> None:
        with self._lock:
            self.seconds[name] += seconds / parallel

    def take(self) -> dict[str, float]:
        """Return the clock's seconds of every phase since the last call, and restart."""
        taken = {name: self.seconds[name] for name in PHASES}
        self.seconds.clear()
        return taken


class _Phase(AbstractContextManager[None]):
    """Context of one phase; a class, as a generator takes thrice the time to enter."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock, self._name = clock, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *raised: Any) -> None:
        self._clock.add(self._name, time.perf_counter() - self._start)
