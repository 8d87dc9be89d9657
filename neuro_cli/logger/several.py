"""Several loggers at once: ``logger=[csv,wandb]``, with each option's keys under its name."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import ConfigError, one_line
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.logger.stored_rows import StoredRows

log = logging.getLogger(__name__)


class Several(Logger):
    """Logger that calls each of ``loggers`` in order; names are those of options. Raises ConfigError for another object."""

    def __init__(self, **loggers: Logger) -> None:
        for name, logger in loggers.items():
            if not isinstance(logger, Logger):
                raise ConfigError(f"logger.{name}", type(logger).__name__, "must be a logger")
        self.loggers = tuple(loggers.values())

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        for logger in self.loggers:
            logger.start(run, config, resumed_at)

    def catch_up(self, rows: StoredRows) -> None:
        for logger in self.loggers:
            logger.catch_up(rows)

    def log(self, row: Row) -> None:
        for logger in self.loggers:
            logger.log(row)

    def finish(self, summary: dict[str, Any]) -> None:
        for logger in self.loggers:
            logger.finish(summary)


class Guarded(Logger):
    """Logger that calls ``logger`` until that fails, then only its finish. A failure after the start is a warning.

    In a resumed run its start includes the rows of ``metrics.csv`` that ``logger`` lacks.
    """

    def __init__(self, logger: Logger) -> None:
        self.logger, self._broken = logger, False

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        self.logger.evaluated = self.evaluated
        self.logger.start(run, config, resumed_at)
        if resumed_at:
            self.catch_up(StoredRows(run, resumed_at))

    def catch_up(self, rows: StoredRows) -> None:
        self._call("log", lambda: self.logger.catch_up(rows))

    def log(self, row: Row) -> None:
        if not self._broken:
            self._call("log", lambda: self.logger.log(row))

    def finish(self, summary: dict[str, Any]) -> None:
        self._call("finish", lambda: self.logger.finish(summary))

    def _call(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # each logger raises its own kinds of errors
            silent, self._broken = self._broken, True
            if not silent:
                name, reason = type(self.logger).__name__, one_line(f"{type(error).__name__}: {error}")[:300]
                log.warning("%s failed to %s (%s): nothing more is sent there, the run continues", name, what, reason)


def without_csv(chosen: Logger) -> list[Guarded]:
    """Return the ``chosen`` loggers, except that of metrics.csv; errors of one reach neither the run nor the others."""
    loggers = chosen.loggers if isinstance(chosen, Several) else (chosen,)
    return [Guarded(logger) for logger in loggers if not isinstance(logger, CsvLogger)]


def with_csv(chosen: Logger) -> list[Logger]:
    """Return the logger of metrics.csv, which every run has, and the other ``chosen`` ones."""
    return [CsvLogger(), *without_csv(chosen)]
