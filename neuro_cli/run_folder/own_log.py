"""Lines of loggers that are not neuro's: those of a user's model, task or sampler, and warnings of libraries.

They go to log.txt and, as warnings or with -v, to the terminal, each under its logger's name. What a script or Hydra has set up
at the root logger stays, and then prints to the terminal in place of this.
"""

import logging
import sys

from neuro_cli.core.errors import lines_apart
from neuro_cli.core.verbosity import verbose

# packages that neuro needs or works with: of theirs warnings alone, as logging has it by default
LIBRARIES = (
    "torch", "torchvision", "numpy", "numba", "llvmlite", "matplotlib", "PIL", "fontTools", "sklearn", "scipy", "hydra",
    "omegaconf", "mpi4py", "wandb", "tensorboard", "tensorflow", "lightning", "mlflow", "alembic", "comet_ml", "gymnasium",
    "mujoco", "stable_baselines3", "grpc", "asyncio", "concurrent", "urllib3", "requests", "httpx", "httpcore", "git",
    "bokeh", "tornado", "onnx", "onnxscript", "onnx_ir", "submitit", "pysyncobj", "cryptography", "datasets",
    "transformers", "fsspec", "filelock",
)  # fmt: skip
NAMED = "%(name)s: %(message)s"


class _Foreign(logging.Handler):
    """Handler of the root logger that writes lines of others, of libraries from warnings on; a second line is indented."""

    def filter(self, record: logging.LogRecord) -> bool:
        package = record.name.partition(".")[0]
        return package != "neuro_cli" and (package not in LIBRARIES or record.levelno >= logging.WARNING)

    def format(self, record: logging.LogRecord) -> str:
        return lines_apart(super().format(record)) + "\n"


class _ToFile(_Foreign):
    """Beside neuro's own lines, in the same file."""

    def __init__(self, file: logging.FileHandler) -> None:
        super().__init__()
        self._file = file
        self.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s {NAMED}"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._file.stream is not None:  # closed meanwhile
                self._file.stream.write(self.format(record))
                self._file.flush()
        except Exception:
            self.handleError(record)


class _ToTerminal(_Foreign):
    """Standard error, with the rank where that is not 0."""

    def __init__(self, rank: int) -> None:
        super().__init__(logging.NOTSET if verbose() and rank == 0 else logging.WARNING)
        self.setFormatter(logging.Formatter(NAMED if rank == 0 else f"rank {rank}: {NAMED}"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record))  # as it is now: above a bar where one is drawn
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def also_to(file: logging.FileHandler | None, rank: int) -> None:
    """Send lines of others to ``file`` and to the terminal, in place of what an earlier call has set."""
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
