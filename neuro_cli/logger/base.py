"""The contract of a logger: who is told about a run. Rank 0 alone makes one and calls it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuro_cli.logger.columns import Row


class Logger(ABC):
    """Called in the order start, log for every generation, finish. A killed run never reaches finish.

    ``evaluated``: columns of its rows that evaluations on the test set fill, the headline first; the run sets it before start.
    """

    evaluated: tuple[str, ...] = ()

    @abstractmethod
    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        """Open the log of the run folder ``run``. Raises UserError when that cannot be.

        ``resumed_at`` is the last generation that counts of a run that goes on, None for a new run.
        """

    @abstractmethod
    def log(self, row: Row) -> None:
        """Record the metrics of one generation, ``row["generation"]``; None where a metric was not measured.

        Of ``neuro scale`` and ``neuro bench`` that is the step of a table: ranks, or the repetition.
        """

    @abstractmethod
    def finish(self, summary: dict[str, Any]) -> None:
        """Record the result of the run and close the log."""
