"""Waits for what another process, a thread or SLURM does; a test has minutes, so no slow machine fails it."""

import time
from collections.abc import Callable
from typing import Any


def until(holds: Callable[[], Any], seconds: float = 240.0, what: object = "") -> Any:
    """Wait until ``holds()`` is true, and return it. Raises AssertionError with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < deadline, what or holds
        time.sleep(0.02)
    return value
