"""Handlers of log lines: all of a run go to its log.txt, warnings to the terminal too.

Lines of a model's or a task's own loggers go there as well, under their names (:mod:`neuro_cli.run_folder.own_log`).

log.txt is locked while a process writes it, and the system drops the lock of a killed one: so `neuro report` knows a
run that goes on from one that was killed.
"""

import fcntl
import logging
import os
import re
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from neuro_cli.core.errors import lines_apart
from neuro_cli.core.files import open_appending
from neuro_cli.core.verbosity import verbose
from neuro_cli.run_folder.own_log import also_to

LOG = "log.txt"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OURS = re.compile(r"\S+ \S+ [A-Z]+ neuro_cli[\w.]*: (.*)")
_ROOT = logging.getLogger("neuro_cli")


class Clean(logging.Formatter):
    """Formatter whose lines a terminal prints as they are: a name, a message of a peer or a file may hold anything."""

    def format(self, record: logging.LogRecord) -> str:
        return lines_apart(super().format(record))


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
    """Send the log to ``run``/log.txt (None: no file) and warnings to stderr, replacing earlier handlers."""
    for handler in list(_ROOT.handlers):
        _ROOT.removeHandler(handler)
        handler.close()
    _ROOT.setLevel(logging.INFO)
    _ROOT.propagate = False
    terminal = _Terminal()
    terminal.setLevel(logging.INFO if verbose() else logging.WARNING)
    terminal.setFormatter(Clean("neuro: %(message)s" if rank == 0 else f"neuro: rank {rank}: %(message)s"))
    if rank == 0:
        _ROOT.addHandler(terminal)
    else:
        _ROOT.addHandler(logging.NullHandler())
    file = _OwnFile(run / LOG) if run is not None and rank == 0 else None
    also_to(file, rank)
    if file is not None:
        assert file.stream is not None  # opened at once
        file.setFormatter(Clean(FORMAT))
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
    """The lines of neuro itself in the log of ``run``, without time and place; none without a log."""
    try:
        lines = (run / LOG).read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return []
    return [found[1] for found in map(_OURS.fullmatch, lines) if found]
