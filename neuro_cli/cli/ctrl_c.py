"""Remembers Ctrl-C while no run is at work: a library may swallow KeyboardInterrupt in one of its imports."""

import signal
from types import FrameType

_heard: list[int] = []


def interrupted() -> bool:
    """Return whether Ctrl-C was heard. Later failures are its consequences, such as the import of a half-loaded module."""
    return bool(_heard)


def listen() -> None:
    """Listen to Ctrl-C, SIGINT, in place of Python's own handler, and forget earlier signals."""
    _heard.clear()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _hear)


def _hear(number: int, frame: FrameType | None) -> None:
    _heard.append(number)
    signal.default_int_handler(number, frame)
