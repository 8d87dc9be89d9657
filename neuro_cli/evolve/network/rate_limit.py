"""Rate limit for log lines that other peers can cause: a few per minute, with the number of suppressed ones."""

import logging
import time
from collections.abc import Callable

PERIOD = 60.0  # seconds of a period


class RateLimitedLog:
    """Log of lines of one kind, at most ``most`` per period; the next line counts the suppressed ones."""

    def __init__(
        self, log: logging.Logger, most: int = 1, level: int = logging.WARNING, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._most, self._level, self._clock = log, most, level, clock
        self._begun, self._said, self._kept = float("-inf"), 0, 0
        self._last = ""

    def say(self, line: str) -> None:
        if self._clock() >= self._begun + PERIOD:
            self._begun, self._said = self._clock(), 0
        if self._said < self._most:
            self._said += 1
            self._log.log(self._level, "%s%s", line, f" ({self._kept} more before it)" if self._kept else "")
            self._kept = 0
        else:
            self._kept, self._last = self._kept + 1, line

    def due(self, at_once: bool = False) -> None:
        """Log the number of suppressed lines when the period is over; to be called regularly."""
        if self._kept and (at_once or self._clock() >= self._begun + PERIOD):
            line, self._kept = f"{self._last} (and {self._kept} in all since the last such line)", 0
            self._begun = float("-inf") if at_once else self._begun
            self.say(line)
