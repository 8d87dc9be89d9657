"""Several loggers at once: ``logger=[csv,wandb]`` makes one of these, with the options' keys under their names."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import ConfigError, one_line
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.csv import CsvLogger

log = logging.getLogger(__name__)


class Several(Logger):
    """Tells each of ``loggers``, by the names of their options, in that order. Raises ConfigError for what is no logger."""

    def __init__(self, **loggers: Logger) -> None:
        for name, logger in loggers.items():
            if not isinstance(logger, Logger):
                raise ConfigError(f"logger.{name}", type(logger).__name__, "must be a logger")
        self.loggers = tuple(loggers.values())

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        for logger in self.loggers:
            logger.start(run, config, resumed_at)

    def log(self, row: Row) -> None:
        for logger in self.loggers:
            logger.log(row)

    def finish(self, summary: dict[str, Any]) -> None:
        for logger in self.loggers:
            logger.finish(summary)


class Guarded(Logger):
    """Tells ``logger`` until it fails after its start: that is a warning, and then it is told the end alone."""

    def __init__(self, logger: Logger) -> None:
        self.logger, self._broken = logger, False

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        self.logger.evaluated = self.evaluated
        self.logger.start(run, config, resumed_at)

    def log(self, row: Row) -> None:
        if not self._broken:
            self._call("log", lambda: self.logger.log(row))

    def finish(self, summary: dict[str, Any]) -> None:
        self._call("finish", lambda: self.logger.finish(summary))

    def _call(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # each has errors of its own
            silent, self._broken = self._broken, True
            if not silent:
                name, reason = type(self.logger).__name__, one_line(f"{type(error).__name__}: {error}")[:300]
                log.warning("%s failed to %s (%s): nothing more goes there, the run goes on", name, what, reason)


def beside_csv(chosen: Logger) -> list[Guarded]:
    """The ``chosen`` loggers, none of which is that of metrics.csv, each guarded from its own errors and those of the others."""
    loggers = chosen.loggers if isinstance(chosen, Several) else (chosen,)
    return [Guarded(logger) for logger in loggers if not isinstance(logger, CsvLogger)]


def with_csv(chosen: Logger) -> list[Logger]:
    """That of metrics.csv, which every run has, and the others of the ``chosen`` ones."""
    return [CsvLogger(), *beside_csv(chosen)]
