"""Where log lines go: all of a run to its log.txt, warnings to the terminal too. Followers show warnings only.

log.txt is locked while a process writes it, and the system drops the lock of a killed one: so `neuro report` knows a
run that goes on from one that was killed.
"""

import fcntl
import logging
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from neuro_cli.core.files import open_appending
from neuro_cli.core.verbosity import verbose

LOG = "log.txt"
_ROOT = logging.getLogger("neuro_cli")


class _OwnFile(logging.FileHandler):
    """A log file that is no symbolic link."""

    def _open(self) -> TextIOWrapper:
        return os.fdopen(open_appending(Path(self.baseFilename)), "a")


class _Terminal(logging.StreamHandler[TextIO]):
    """Standard error as it is now: while a bar is drawn there, lines go above it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def log_to(run: Path | None, rank: int) -> None:
    """Send the package's log to ``run``/log.txt (None: no file) and warnings to stderr, replacing earlier handlers."""
    for handler in list(_ROOT.handlers):
        _ROOT.removeHandler(handler)
        handler.close()
    _ROOT.setLevel(logging.INFO)
    _ROOT.propagate = False
    terminal = _Terminal()
    terminal.setLevel(logging.INFO if verbose() else logging.WARNING)
    terminal.setFormatter(logging.Formatter("neuro: %(message)s" if rank == 0 else f"neuro: rank {rank}: %(message)s"))
    if rank == 0:
        _ROOT.addHandler(terminal)
    else:
        _ROOT.addHandler(logging.NullHandler())
    if run is not None and rank == 0:
        file = _OwnFile(run / LOG)
        assert file.stream is not None  # opened at once
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        _ROOT.addHandler(file)
        try:
            fcntl.flock(file.stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # the process that started this world holds it, as long as the world lives
        except OSError as error:
            _ROOT.info(
                "no locks on this file system (%s): neuro report takes a run that goes on for a failed one", error.strerror
            )


def is_written(run: Path) -> bool:
    """Tell whether a living process writes the log of ``run``."""
    try:
        with (run / LOG).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no log yet, or no locks on this file system (its first line says so)
        return False
    return False


def messages(run: Path) -> list[str]:
    """The lines of the log of ``run`` without time and place; none without a log."""
    try:
        lines = (run / LOG).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line.partition(": ")[2] for line in lines]
