"""Waits without polling, for ranks that share cores; MPI's own waits poll."""

import os
import signal
import time
from typing import Any

ALERT = 1e-4  # seconds of waiting without sleep


def wait_asleep(request: Any, nap: float) -> None:
    """Wait for an MPI request with sleeps up to ``nap`` seconds, at most an eighth of the wait.

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
