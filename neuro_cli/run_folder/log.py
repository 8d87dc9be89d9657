"""Handlers of log lines: a run's lines go to its log.txt, warnings to the terminal too.

Lines of other loggers, those of a user's model, task or sampler, go there as well, under their names; libraries have warnings
alone. Handlers that a script or Hydra set at the root logger stay, and print other loggers' lines in place of these.

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
from neuro_cli.core.messages.verbosity import verbose

LOG = "log.txt"
NAMED = "%(name)s: %(message)s"
FORMAT = f"%(asctime)s %(levelname)s {NAMED}"
# packages that neuro needs or works with: only their warnings, which is logging's default
LIBRARIES = (
    "torch", "torchvision", "numpy", "numba", "llvmlite", "matplotlib", "PIL", "fontTools", "sklearn", "scipy", "hydra",
    "omegaconf", "mpi4py", "wandb", "tensorboard", "tensorflow", "lightning", "mlflow", "alembic", "comet_ml", "gymnasium",
    "mujoco", "stable_baselines3", "grpc", "asyncio", "concurrent", "urllib3", "requests", "httpx", "httpcore", "git",
    "tornado", "onnx", "onnxscript", "onnx_ir", "submitit", "pysyncobj", "cryptography", "datasets",
    "transformers", "fsspec", "filelock",
)  # fmt: skip
OURS = "neuro_cli"
_OURS = re.compile(r"\S+ \S+ [A-Z]+ neuro_cli[\w.]*: (.*)")
_ROOT = logging.getLogger(OURS)
_at_root: list[logging.Handler] = []  # handlers of ours at the root logger
_levels: list[int] = []  # level that the root logger had


class Clean(logging.Formatter):
    """Formatter of lines without control characters, which names, files and messages of peers may contain.

    Lines of other loggers have the format ``others``, and all but the first line of their texts are indented.
    """

    def __init__(self, ours: str, others: str = FORMAT) -> None:
        super().__init__(ours)
        self._others = logging.Formatter(others)

    def format(self, record: logging.LogRecord) -> str:
        return lines_apart(super().format(record) if _package(record) == OURS else self._others.format(record))


def _package(record: logging.LogRecord) -> str:
    return record.name.partition(".")[0]


def _chosen(record: logging.LogRecord) -> bool:
    """Return whether a line is one of ours, of a user's code, or a warning of a library."""
    return _package(record) not in LIBRARIES or record.levelno >= logging.WARNING


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
    leave()
    for handler in list(_ROOT.handlers):
        _ROOT.removeHandler(handler)
        handler.close()
    _ROOT.setLevel(logging.INFO)
    _ROOT.propagate = False
    terminal = _Terminal()
    terminal.setLevel(logging.INFO if verbose() and rank == 0 else logging.WARNING)
    terminal.setFormatter(Clean("neuro: %(message)s", NAMED if rank == 0 else f"rank {rank}: {NAMED}"))
    _ROOT.addHandler(terminal if rank == 0 else logging.NullHandler())
    root = logging.getLogger()
    if not any(type(handler) in (logging.StreamHandler, logging.FileHandler) for handler in root.handlers):
        _levels.append(root.level)
        root.setLevel(min(root.level, logging.INFO))
        _add_to_root(terminal)
    if run is not None and rank == 0:
        file = _OwnFile(run / LOG)
        file.setFormatter(Clean(FORMAT))
        _ROOT.addHandler(file)
        _add_to_root(file)
        assert file.stream is not None  # a FileHandler opens its file at once
        try:
            fcntl.flock(file.stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # the process that started this world has the lock until the world ends
        except OSError as error:
            _ROOT.info("no locks on this file system (%s): neuro report takes a running run for a failed one", error.strerror)


def _add_to_root(handler: logging.Handler) -> None:
    handler.addFilter(_chosen)
    logging.getLogger().addHandler(handler)
    _at_root.append(handler)


def leave() -> None:
    """Put the root log back as it was."""
    for handler in _at_root:
        logging.getLogger().removeHandler(handler)
    _at_root.clear()
    if _levels:
        logging.getLogger().setLevel(_levels.pop())


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
