"""Handlers of log lines: a run's lines go to its log.txt, warnings to the terminal too.

Lines of a model's or a task's loggers go there as well, under their names (:mod:`neuro_cli.run_folder.own_log`).

A process locks log.txt while it writes, and the system drops the lock of a killed process. By that `neuro report` tells running
from killed runs.
"""

import fcntl
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from neuro_cli.core.errors import UserError, lines_apart
from neuro_cli.core.files import open_appending
from neuro_cli.core.verbosity import verbose
from neuro_cli.run_folder.own_log import also_to

LOG = "log.txt"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OURS = re.compile(r"\S+ \S+ [A-Z]+ neuro_cli[\w.]*: (.*)")
_ROOT = logging.getLogger("neuro_cli")


class Clean(logging.Formatter):
    """Formatter of lines without control characters, which names, files and messages of peers may contain."""

    def format(self, record: logging.LogRecord) -> str:
        return lines_apart(super().format(record))


class _OwnFile(logging.FileHandler):
    """Log file; a symbolic link is refused."""

    def _open(self) -> TextIOWrapper:
        return os.fdopen(open_appending(Path(self.baseFilename)), "a")


class _Terminal(logging.StreamHandler[TextIO]):
    """Handler of the present standard error; a progress bar replaces it to print lines above itself."""

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
        assert file.stream is not None  # a FileHandler opens its file at once
        file.setFormatter(Clean(FORMAT))
        _ROOT.addHandler(file)
        try:
            fcntl.flock(file.stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # the process that started this world has the lock until the world ends
        except OSError as error:
            _ROOT.info("no locks on this file system (%s): neuro report takes a running run for a failed one", error.strerror)


class _Upwards(logging.Handler):
    """Handler that passes lines on as if no file were open: to the script's handlers, else warnings to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger().callHandlers(record)


@contextmanager
def also_logged(run: Path) -> Iterator[logging.Handler]:
    """Write the log to ``run``/log.txt too, inside the context; what a script shows of it stays as it is.

    Raises UserError where another process writes there.
    """
    file = _OwnFile(run / LOG)
    assert file.stream is not None  # a FileHandler opens its file at once
    try:
        fcntl.flock(file.stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UserError(f"{run}: another process works on this run; wait for it, or end it") from None
    except OSError:  # a file system without locks
        pass
    file.setFormatter(Clean(FORMAT))
    before = _ROOT.level, _ROOT.propagate
    upwards = _Upwards(_ROOT.getEffectiveLevel())
    added = [file, *([upwards] if _ROOT.propagate else [])]
    for handler in added:
        _ROOT.addHandler(handler)
    _ROOT.setLevel(min(_ROOT.getEffectiveLevel(), logging.INFO))
    _ROOT.propagate = False
    try:
        yield file
    finally:
        for handler in added:
            _ROOT.removeHandler(handler)
        file.close()
        if upwards in added:
            _ROOT.setLevel(before[0])
            _ROOT.propagate = before[1]


def is_written(run: Path) -> bool:
    """Return whether a living process writes the log of ``run``."""
    try:
        with (run / LOG).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no log yet, or a file system without locks (the log's first line says so)
        return False
    return False


def messages(run: Path) -> list[str]:
    """Return neuro's lines in the log of ``run``, without time and place; none without a log."""
    try:
        lines = (run / LOG).read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return []
    return [match[1] for match in map(_OURS.fullmatch, lines) if match]
