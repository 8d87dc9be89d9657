"""Handlers of other loggers' lines: those of a user's model, task or sampler, and warnings of libraries.

Lines go to log.txt under their loggers' names, and warnings (all lines with -v) to the terminal. Handlers that a script or Hydra
set at the root logger stay, and print to the terminal in place of these.
"""

import logging
import sys

from neuro_cli.core.errors import lines_apart
from neuro_cli.core.verbosity import verbose

# packages that neuro needs or works with: only their warnings, which is logging's default
LIBRARIES = (
    "torch", "torchvision", "numpy", "numba", "llvmlite", "matplotlib", "PIL", "fontTools", "sklearn", "scipy", "hydra",
    "omegaconf", "mpi4py", "wandb", "tensorboard", "tensorflow", "lightning", "mlflow", "alembic", "comet_ml", "gymnasium",
    "mujoco", "stable_baselines3", "grpc", "asyncio", "concurrent", "urllib3", "requests", "httpx", "httpcore", "git",
    "tornado", "onnx", "onnxscript", "onnx_ir", "submitit", "pysyncobj", "cryptography", "datasets",
    "transformers", "fsspec", "filelock",
)  # fmt: skip
NAMED = "%(name)s: %(message)s"


class _Foreign(logging.Handler):
    """Handler at the root logger: lines of other loggers, those of libraries from warnings on; continued lines are indented."""

    def filter(self, record: logging.LogRecord) -> bool:
        package = record.name.partition(".")[0]
        return package != "neuro_cli" and (package not in LIBRARIES or record.levelno >= logging.WARNING)

    def format(self, record: logging.LogRecord) -> str:
        return lines_apart(super().format(record)) + "\n"


class _ToFile(_Foreign):
    """Handler that writes into the file of neuro's own lines."""

    def __init__(self, file: logging.FileHandler) -> None:
        super().__init__()
        self._file = file
        self.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s {NAMED}"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._file.stream is not None:  # None: neuro's handler has closed it
                self._file.stream.write(self.format(record))
                self._file.flush()
        except Exception:
            self.handleError(record)


class _ToTerminal(_Foreign):
    """Handler of standard error; a rank other than 0 adds its number."""

    def __init__(self, rank: int) -> None:
        super().__init__(logging.NOTSET if verbose() and rank == 0 else logging.WARNING)
        self.setFormatter(logging.Formatter(NAMED if rank == 0 else f"rank {rank}: {NAMED}"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record))  # looked up each time: a progress bar replaces it to print above itself
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def also_to(file: logging.FileHandler | None, rank: int) -> None:
    """Send other loggers' lines to ``file`` and to the terminal, in place of an earlier call's handlers."""
    leave()
    root = logging.getLogger()
    if not any(type(handler) in (logging.StreamHandler, logging.FileHandler) for handler in root.handlers):
        _levels.append(root.level)
        root.setLevel(min(root.level, logging.INFO))
        root.addHandler(_ToTerminal(rank))
    if file is not None:
        root.addHandler(_ToFile(file))


def leave() -> None:
    """Put the root logger back as it was."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Foreign)]:
        root.removeHandler(handler)
        handler.close()
    if _levels:
        root.setLevel(_levels.pop())


_levels: list[int] = []
