"""Ctrl-C while no run is at work, remembered: a library may swallow KeyboardInterrupt in one of its imports."""

import signal
from types import FrameType

_heard: list[int] = []


def interrupted() -> bool:
    """Tell whether Ctrl-C was heard: what fails from then on failed by it, as the next import that finds a half-made module."""
    return bool(_heard)


def listen() -> None:
    """Forget what was heard, and hear SIGINT where Python's own handler would."""
    _heard.clear()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _hear)


def _hear(number: int, frame: FrameType | None) -> None:
    _heard.append(number)
    signal.default_int_handler(number, frame)
