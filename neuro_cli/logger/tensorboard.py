"""TensorBoard event files under ``tensorboard/`` of the run folder: ``tensorboard --logdir RUN/tensorboard``."""

import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.core.messages.install import install
from neuro_cli.logger.base import Tracker

MISSING = f"logger=tensorboard: needs the extra: {install('tensorboard')}"


class TensorBoardLogger(Tracker):
    """Writer of a scalar for each metric, config and summary as text, and the keys by which the tab HPARAMS compares runs.

    Raises UserError without the package.
    """

    name = "tensorboard"

    def __init__(self) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise UserError(MISSING)

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
            from torch.utils.tensorboard.summary import hparams
        except ImportError as error:
            raise UserError(MISSING) from error
        self.folder = run / "tensorboard"
        # purging hides later generations of a killed session, which run again, and a row that the kill may have cut off
        purge = None
        if resumed_at is not None:
            self.recorded = min(resumed_at, max(0, last_step(self.folder) - 1))
            purge = self.recorded + 1
        # no description of an experiment: the tab then shows keys and metrics of all runs, the differing ones first
        _, begin, self._end = hparams(flat(config), {})
        with self._writing():
            self._writer = SummaryWriter(str(self.folder), purge_step=purge, flush_secs=10)
            self._add(begin)
            self._add_text("config", config, resumed_at or 0)

    def send(self, metrics: dict[str, int | float], step: int) -> None:
        with self._writing():
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, step)

    def finish(self, summary: dict[str, Any]) -> None:
        with self._writing(), closing(self._writer):
            self._add(self._end)
            self._add_text("summary", summary, int(summary.get("generations", 0)))

    def _add(self, summary: Any) -> None:
        writer: Any = self._writer.file_writer
        writer.add_summary(summary)

    def _add_text(self, tag: str, content: Mapping[str, Any], step: int) -> None:
        lines = json.dumps(dict(content), indent=2, default=str).splitlines()
        self._writer.add_text(
            tag, "\n".join(f"    {line}" for line in lines), step
        )  # Markdown shows lines after four blanks as code
        self._writer.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written: {error.strerror}") from error


def last_step(folder: Path) -> int:
    """Return the last step of a scalar in the event files of ``folder``, up to where a kill cut them off; 0 without any."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for path in sorted(folder.glob("events.out.tfevents.*"), reverse=True):
        events = LegacyEventFileLoader(str(path)).Load()
        steps = [event.step for event in events if any(value.HasField("simple_value") for value in event.summary.value)]
        if steps:
            return int(steps[-1])
    return 0


def flat(config: Any, path: str = "") -> dict[str, int | float | str]:
    """Return values of ``config`` by dotted key, as the tab shows them: booleans and lists as texts, without nulls.

    Integers beyond 2**53 are texts too: the tab's numbers are float64, where two seeds would be one.
    """
    if isinstance(config, dict):
        parts = [flat(node, f"{path}.{name}" if path else str(name)) for name, node in config.items()]
        return {key: value for part in parts for key, value in part.items()}
    if config is None:
        return {}
    plain = isinstance(config, float | str) or (type(config) is int and abs(config) <= 2**53)
    return {path: config if plain else json.dumps(config, default=str)}
