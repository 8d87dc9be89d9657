"""Entry point of the console script: Ctrl-C while the command still loads is one line too, from the first import on."""

import gc
import signal
import sys
from types import FrameType

from neuro_cli.core.machine.garbage import keep_modules, no_search

_heard: list[int] = []


def ctrl_c_heard() -> bool:
    """Return whether Ctrl-C was heard. Later failures are its consequences, such as the import of a half-loaded module."""
    return bool(_heard)


def listen() -> None:
    """Forget earlier signals, and listen to SIGINT in place of Python's own handler."""
    _heard.clear()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _hear)


def _hear(number: int, frame: FrameType | None) -> None:
    _heard.append(number)
    signal.default_int_handler(number, frame)


def main() -> None:
    listen()
    keep_modules()
    try:
        with no_search():
            from neuro_cli.cli.main import main as command

        command()
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt) and (isinstance(error, SystemExit) or not ctrl_c_heard()):
            raise
        print("neuro: interrupted", file=sys.stderr, flush=True)
        sys.exit(130)
    finally:
        # Python ends with a search for cycles through every object of torch: 0.7 s of the processor, and nothing comes of it
        gc.freeze()
