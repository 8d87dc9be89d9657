"""Seconds of a generation, by phase."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

PHASES = ("sample", "forward", "communicate", "update")


class Clock:
    """Adds up seconds by phase; ``parallel`` threads of one phase count as one."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._lock = threading.Lock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float, parallel: int = 1) -> None:
        with self._lock:
            self.seconds[name] += seconds / parallel

    def take(self) -> dict[str, float]:
        """Return seconds of every phase since the last call, and restart."""
        taken = {name: self.seconds[name] for name in PHASES}
        self.seconds.clear()
        return taken
