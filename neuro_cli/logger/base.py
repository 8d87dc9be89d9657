"""Interface of loggers, which receive a run's metrics on rank 0."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import one_line
from neuro_cli.logger.columns import Row, grouped
from neuro_cli.logger.stored_rows import StoredRows


class Logger(ABC):
    """Receiver of a run's metrics: start, then log for every generation, then finish. A killed run never reaches finish.

    ``evaluated``: columns of its rows that evaluations on the test set fill, the headline first; the run sets it before start.
    """

    evaluated: tuple[str, ...] = ()

    @abstractmethod
    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        """Open the log of the run folder ``run``. Raises UserError when that fails.

        ``resumed_at``: the generation after which a resumed run continues, None for a new run. ``config``: resolved, read-only.
        """

    def catch_up(self, rows: StoredRows) -> None:  # noqa: B027  # loggers of users lack it
        """Record those of ``rows``, up to ``resumed_at``, that the log lacks. Called after start, for resumed runs only.

        A kill loses the rows that a tracker had not written yet. The default records nothing.
        """

    @abstractmethod
    def log(self, row: Row) -> None:
        """Record the metrics of one generation, ``row["generation"]``; None where a metric was not measured."""

    @abstractmethod
    def finish(self, summary: dict[str, Any]) -> None:
        """Record the result of the run and close the log."""


class Tracker(Logger):
    """Logger of a service or a program that shows runs: one run there over all kills and resumes of a run folder.

    ``name``: for messages. ``recorded``: last generation that earlier sessions left there, which ``start`` sets. ``patience``:
    seconds that calls may take after the end of a run; above 0 a thread makes them, so a slow server delays no generation.
    Errors end no run: :class:`neuro_cli.logger.several.Guarded`.
    """

    name = ""
    recorded = -1
    patience = 0.0

    @abstractmethod
    def send(self, metrics: dict[str, int | float], step: int) -> None:
        """Send the metrics of one generation, by group and name."""

    def catch_up(self, rows: StoredRows) -> None:
        for row in rows.after(self.recorded):
            self.log(row)

    def log(self, row: Row) -> None:
        """Send the metrics of a generation that the tracker lacks: it would show a step twice, or refuse it."""
        step = int(row["generation"] or 0)
        if step > self.recorded:
            self.send(grouped(row, self.evaluated), step)


def reason(error: Exception) -> str:
    """Return kind and text of an error of a logger's library as one line."""
    return one_line(f"{type(error).__name__}: {error}")[:300]
