"""TensorBoard event files under ``tensorboard/`` of the run folder: ``tensorboard --logdir RUN/tensorboard``."""

import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.core.install import install
from neuro_cli.logger.base import Logger, Row

MISSING = f"logger=tensorboard: needs the extra: {install('tensorboard')}"


class TensorBoardLogger(Logger):
    """One scalar a metric, config and summary as text. Raises UserError when the package is not there."""

    def __init__(self) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise UserError(MISSING)

    def start(self, run: Path, config: dict[str, Any], resumed_at: int | None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError(MISSING) from error
        self.folder = run / "tensorboard"
        # later generations of a killed session are hidden: they are made again
        purge = None if resumed_at is None else resumed_at + 1
        with self._writing():
            self._writer = SummaryWriter(str(self.folder), purge_step=purge, flush_secs=10)
            self._add_text("config", config, resumed_at or 0)

    def log(self, row: Row) -> None:
        with self._writing():
            for name, value in row.items():
                if name != "generation" and value is not None:
                    self._writer.add_scalar(name, value, row["generation"])

    def finish(self, summary: dict[str, Any]) -> None:
        with self._writing():
            self._add_text("summary", summary, int(summary.get("generations", 0)))
            self._writer.close()

    def _add_text(self, tag: str, content: dict[str, Any], step: int) -> None:
        lines = json.dumps(content, indent=2, default=str).splitlines()
        self._writer.add_text(tag, "\n".join(f"    {line}" for line in lines), step)  # four blanks: shown as code
        self._writer.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written: {error.strerror}") from error
