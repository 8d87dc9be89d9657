"""Entry point of the console script: Ctrl-C while the command still loads is one line too, from the first import on."""

import signal
import sys
from types import FrameType

_heard: list[int] = []


def interrupts() -> bool:
    """Whether Ctrl-C was heard while no run was at work: what fails from then on failed by it.

    A library may swallow KeyboardInterrupt in one of its imports, and the next import finds a module that is half there.
    """
    return bool(_heard)


def _hear(number: int, frame: FrameType | None) -> None:
    _heard.append(number)
    signal.default_int_handler(number, frame)


def main() -> None:
    _heard.clear()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _hear)
    try:
        from neuro_cli.cli.main import main as command

        command()
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt) and (isinstance(error, SystemExit) or not _heard):
            raise
        print("neuro: interrupted", file=sys.stderr, flush=True)
        sys.exit(130)
