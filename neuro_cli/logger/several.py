"""Several loggers at once: ``logger=[csv,wandb]`` makes one of these, with the options' keys under their names."""

from pathlib import Path
from typing import Any

from neuro_cli.core.errors import ConfigError
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.csv import CsvLogger


class Several(Logger):
    """Tells each of ``loggers``, by the names of their options, in that order. Raises ConfigError for what is no logger."""

    def __init__(self, **loggers: Logger) -> None:
        for name, logger in loggers.items():
            if not isinstance(logger, Logger):
                raise ConfigError(f"logger.{name}", type(logger).__name__, "must be a logger")
        self.loggers = tuple(loggers.values())

    def start(self, run: Path, config: dict[str, Any], resumed_at: int | None) -> None:
        for logger in self.loggers:
            logger.start(run, config, resumed_at)

    def log(self, row: Row) -> None:
        for logger in self.loggers:
            logger.log(row)

    def finish(self, summary: dict[str, Any]) -> None:
        for logger in self.loggers:
            logger.finish(summary)


def beside_csv(chosen: Logger) -> list[Logger]:
    """The ``chosen`` loggers, none of which is that of metrics.csv."""
    loggers = chosen.loggers if isinstance(chosen, Several) else (chosen,)
    return [logger for logger in loggers if not isinstance(logger, CsvLogger)]


def with_csv(chosen: Logger) -> list[Logger]:
    """That of metrics.csv, which every run has, and the others of the ``chosen`` ones."""
    return [CsvLogger(), *beside_csv(chosen)]
