"""Several loggers at once: ``logger=[csv,wandb]``, with each option's keys under its name."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.logger.base import Logger, Row, Tracker, reason
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.logger.stored_rows import StoredRows

log = logging.getLogger(__name__)


class Several(Logger):
    """Logger that calls each of ``loggers`` in order; names are those of options. Raises ConfigError for another object."""

    def __init__(self, **loggers: Logger) -> None:
        for name, logger in loggers.items():
            if not isinstance(logger, Logger):
                raise ConfigError(f"logger.{name}", type(logger).__name__, "must be a logger")
        self.loggers: tuple[Logger, ...] = tuple(loggers.values())

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        for logger in self.loggers:
            logger.evaluated = self.evaluated
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
    """Guarded one of several loggers: it calls ``logger`` until that fails, then only its finish. A failure is a warning.

    UserErrors of a start are raised, and all errors there where ``logger`` is no Tracker. In a resumed run the start includes the
    rows of ``metrics.csv`` that ``logger`` lacks.
    """

    def __init__(self, logger: Logger) -> None:
        self.logger, self._broken = logger, False
        self._tracks = isinstance(logger, Tracker)
        self._name = logger.name if isinstance(logger, Tracker) else type(logger).__name__

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        self.logger.evaluated = self.evaluated
        self._call("start", lambda: self.logger.start(run, config, resumed_at), UserError if self._tracks else Exception)
        if resumed_at:
            self.catch_up(StoredRows(run, resumed_at))

    def catch_up(self, rows: StoredRows) -> None:
        self._call("log", lambda: self.logger.catch_up(rows))

    def log(self, row: Row) -> None:
        self._call("log", lambda: self.logger.log(row))

    def finish(self, summary: dict[str, Any]) -> None:
        self._call("finish", lambda: self.logger.finish(summary))

    def _call(self, what: str, action: Callable[[], None], raises: type[Exception] | tuple[()] = ()) -> None:
        if self._broken and what != "finish":
            return
        try:
            action()
        except raises:
            raise
        except Exception as error:  # each library raises its own kinds of errors
            silent, self._broken = self._broken, True
            if not silent:
                text = "%s failed to %s (%s): nothing more is sent there, the run continues"
                log.warning(text, self._name, what, reason(error))


class Threaded(Guarded):
    """Guarded logger whose calls are made by a thread. Its finish waits for them, ``patience`` at most.

    No error of a start is raised, a UserError neither: the run does not wait for it.
    """

    def __init__(self, logger: Tracker) -> None:
        super().__init__(logger)
        self._patience = logger.patience
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._serve, name=f"neuro-{self._name}", daemon=True)

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        self._thread.start()
        super().start(run, config, resumed_at)

    def finish(self, summary: dict[str, Any]) -> None:
        super().finish(summary)
        self._calls.put(None)
        self._thread.join(self._patience)
        if self._thread.is_alive():
            log.warning("%s does not answer: what it has not uploaded stays in the run folder", self._name)

    def _call(self, what: str, action: Callable[[], None], raises: type[Exception] | tuple[()] = ()) -> None:
        self._calls.put(partial(super()._call, what, action))

    def _serve(self) -> None:
        for call in iter(self._calls.get, None):
            call()


def _guarded(logger: Logger) -> Guarded:
    return Threaded(logger) if isinstance(logger, Tracker) and logger.patience else Guarded(logger)


def without_csv(chosen: Logger) -> list[Guarded]:
    """Return the ``chosen`` loggers, except that of metrics.csv; errors of one reach neither the run nor the others."""
    loggers = chosen.loggers if isinstance(chosen, Several) else (chosen,)
    return [_guarded(logger) for logger in loggers if not isinstance(logger, CsvLogger)]


def with_csv(chosen: Logger) -> Several:
    """Return the logger of metrics.csv, which every run has, and the other ``chosen`` ones."""
    every = Several()
    every.loggers = (CsvLogger(), *without_csv(chosen))
    return every
