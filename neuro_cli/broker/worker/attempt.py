"""Attempt at a task in a separate process: how it ended, and with what."""

import math
from dataclasses import dataclass
from enum import StrEnum

from neuro_cli.broker.worker.frames import Frame, FrameError

ERROR_BYTES = 16384  # most characters of an error's text, the end of a longer one


class Ending(StrEnum):
    """Names of the contract's `Outcome` (`broker.proto`), as far as a task process can give them."""

    DONE = "DONE"
    RAISED = "RAISED"
    CRASHED = "CRASHED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    UNKNOWN_KIND = "UNKNOWN_KIND"
    TOO_LARGE = "TOO_LARGE"


# another attempt would end the same way; other endings are worth one
SAME_AGAIN = (Ending.RAISED, Ending.UNKNOWN_KIND, Ending.TOO_LARGE, Ending.OUT_OF_MEMORY)


@dataclass(frozen=True)
class Attempt:
    """``payload``: JSON, with DONE; ``error`` with any other ending: one line, or a traceback; ``seconds``: its duration."""

    ending: Ending
    payload: bytes = b""
    error: str = ""
    seconds: float = 0.0

    def frame(self) -> Frame:
        """Return head and payload of the message that carries it."""
        return {"ending": self.ending, "error": self.error, "seconds": self.seconds}, self.payload


def failed(ending: Ending, error: str, seconds: float) -> Attempt:
    """Return an attempt without a payload. A long ``error`` loses its beginning, and characters that UTF-8 lacks."""
    text = error.encode(errors="replace")[-ERROR_BYTES:].decode(errors="ignore")
    return Attempt(ending, error=text, seconds=seconds)


def attempt_of(frame: Frame) -> Attempt:
    """Read the attempt from a message of :meth:`Attempt.frame`. Raises FrameError for any other message."""
    head, payload = frame
    ending, error, seconds = head.get("ending"), head.get("error"), head.get("seconds")
    if ending not in tuple(Ending) or not isinstance(error, str):
        raise FrameError("a message without an ending and its error")
    if not isinstance(seconds, float) or not math.isfinite(seconds):
        raise FrameError("a message without seconds")
    return Attempt(Ending.DONE, payload, "", seconds) if ending == Ending.DONE else failed(Ending(ending), error, seconds)
