"""MLflow and Comet by the loggers of Lightning, which share one interface: log_hyperparams, log_metrics, finalize.

What goes wrong there is told once, then this logger is silent: a tracker must not end a run.
"""

import importlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.install import absent, install
from neuro_cli.core.machine.current_folder import advice, trusted_by_user
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.groups import grouped

log = logging.getLogger(__name__)

# class of lightning.pytorch.loggers, and the package that it needs beside lightning
SERVICES = {
    "mlflow": ("MLFlowLogger", "mlflow"),
    "comet": ("CometLogger", "comet_ml"),
}
# files of the current folder that comet takes its server from, and a part of those that are meant for it
COMET_FILES = {".comet.config": "", ".env": "COMET_"}


class LightningLogger(Logger):
    """Metrics, config and summary to ``service``: mlflow | comet. ``settings``: arguments of Lightning's class.

    Where these leave it out, files go to a folder of the service's name in the run folder. Raises UserError without the packages.
    """

    def __init__(self, service: str, settings: dict[str, Any] | None = None) -> None:
        if service not in SERVICES:
            raise ConfigError("logger.service", service, f"must be one of {', '.join(SERVICES)}")
        if settings is not None and not isinstance(settings, dict):
            raise ConfigError("logger.settings", settings, "must be arguments by name, {experiment_name: tries}")
        self.service, self.settings = service, {key: value for key, value in (settings or {}).items() if value is not None}
        missing = absent("lightning", SERVICES[service][1])
        if missing:
            raise UserError(f"logger={service}: needs {', '.join(missing)}: {install(service)}")
        self._logger: Any = None
        self._broken = False

    def start(self, run: Path, config: dict[str, Any], resumed_at: int | None) -> None:
        if self.service == "comet":
            refuse_settings()
        made = getattr(importlib.import_module("lightning.pytorch.loggers"), SERVICES[self.service][0])
        try:
            self._logger = made(**{**self._place(run), **self.settings})
        except TypeError as error:
            raise ConfigError("logger.settings", self.settings, " ".join(str(error).split())) from error
        except Exception as error:  # each service raises errors of its own
            self._give_up("start", error)
        self._call("start", lambda: self._logger.log_hyperparams(config))

    def _place(self, run: Path) -> dict[str, Any]:
        """Argument for files of this run's own, where no server is named; MLflow keeps them in a database."""
        if self.service == "comet":
            return {"offline_directory": str(run / self.service)}
        if self.service != "mlflow" or "tracking_uri" in self.settings or os.environ.get("MLFLOW_TRACKING_URI"):
            return {}
        (run / self.service).mkdir(parents=True, exist_ok=True)
        return {"tracking_uri": f"sqlite:///{(run / self.service).absolute()}/runs.db"}

    def log(self, row: Row) -> None:
        metrics = {name: float(value) for name, value in grouped(row, self.evaluated).items()}
        self._call("log", lambda: self._logger.log_metrics(metrics, step=int(row["generation"] or 0)))

    def finish(self, summary: dict[str, Any]) -> None:
        numbers = {f"summary/{name}": float(value) for name, value in summary.items() if type(value) in (int, float)}
        if numbers:
            step = int(summary.get("generations") or 0)
            self._call("finish", lambda: self._logger.log_metrics(numbers, step=step))
        if self._logger is not None:  # one that began ends, whatever failed meanwhile
            self._call("finish", lambda: self._logger.finalize("success"), again=True)

    def _call(self, what: str, action: Callable[[], Any], again: bool = False) -> None:
        """Call ``action`` unless an earlier one failed; with ``again`` also then."""
        if self._broken and not again:
            return
        try:
            action()
        except Exception as error:
            self._give_up(what, error)

    def _give_up(self, what: str, error: Exception) -> None:
        silent, self._broken = self._broken, True
        if silent:
            return
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        log.warning("%s failed to %s (%s): nothing more goes there, the run goes on", self.service, what, reason)


def refuse_settings() -> None:
    """Raise UserError where comet would take its server from a file of the current folder, and send it the user's key."""
    for name, part in COMET_FILES.items():
        try:
            refused = "comet" not in trusted_by_user() and part in Path(name).read_text(errors="replace")
        except OSError:  # not there
            continue
        if refused:
            raise UserError(
                f"logger=comet: {name} of the current folder could choose who gets your key; set variables COMET_* or "
                f"~/.comet.config in its place, or {advice('comet')}"
            )
