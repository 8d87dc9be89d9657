"""Interface of loggers, which receive a run's metrics on rank 0."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuro_cli.logger.columns import Row
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
        """Record the metrics of one generation, ``row["generation"]``; None where a metric was not measured.

        For ``neuro scale`` and ``neuro bench`` the generation is the step of a table: ranks, or the repetition.
        """

    @abstractmethod
    def finish(self, summary: dict[str, Any]) -> None:
        """Record the result of the run and close the log."""
