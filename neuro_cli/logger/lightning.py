"""MLflow and Comet by the loggers of Lightning, which share one interface: log_hyperparams, log_metrics, finalize.

What goes wrong there is told once, then this logger is silent: a tracker must not end a run.
"""

import hashlib
import importlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import refuse_link, write_atomically
from neuro_cli.core.install import absent, install
from neuro_cli.core.machine.current_folder import advice, trusted_by_user
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.groups import grouped

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """Class ``made`` of lightning.pytorch.loggers, and the ``package`` that it needs beside lightning.

    ``argument``: by which a run goes on that the attribute ``identifier`` names; ``server``: the variable that chooses one.
    """

    made: str
    package: str
    argument: str
    identifier: str
    server: str


SERVICES = {
    "mlflow": Service("MLFlowLogger", "mlflow", "run_id", "run_id", "MLFLOW_TRACKING_URI"),
    "comet": Service("CometLogger", "comet_ml", "experiment_key", "version", "COMET_URL_OVERRIDE"),
}
_IDENTIFIER = re.compile(r"[\w-]{1,100}")
# files of the current folder that comet takes its server from, and a part of those that are meant for it
COMET_FILES = {".comet.config": "", ".env": "COMET_"}


class LightningLogger(Logger):
    """Metrics, config and summary to ``service``: mlflow | comet. ``settings``: arguments of Lightning's class.

    Where these leave it out, files go to a folder of the service's name in the run folder. A run that goes on is the same run
    there, with the config that it began with: its identifier is kept in ``SERVICE.json``. Raises UserError without the packages.
    """

    def __init__(self, service: str, settings: dict[str, Any] | None = None) -> None:
        if service not in SERVICES:
            raise ConfigError("logger.service", service, f"must be one of {', '.join(SERVICES)}")
        if settings is not None and not isinstance(settings, dict):
            raise ConfigError("logger.settings", settings, "must be arguments by name, {experiment_name: tries}")
        self.service, self.settings = service, {key: value for key, value in (settings or {}).items() if value is not None}
        missing = absent("lightning", SERVICES[service].package)
        if missing:
            raise UserError(f"logger={service}: needs {', '.join(missing)}: {install(service)}")
        self._logger: Any = None
        self._broken = False

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        if self.service == "comet":
            refuse_settings()
        made = getattr(importlib.import_module("lightning.pytorch.loggers"), SERVICES[self.service].made)
        self._file = run / f"{self.service}.json"
        settings = {**self._place(run), **self.settings}
        known = self._known() if resumed_at is not None else None
        if known is None:
            self._call("start", lambda: self._begin(made, settings))
            self._call("start", lambda: self._logger.log_hyperparams(config))
            return
        try:
            self._begin(made, {SERVICES[self.service].argument: known, **settings})
        except ConfigError:
            raise
        except Exception as error:  # gone there, or there is no server
            log.warning("%s: its run %s cannot go on (%s): it is another one from here", self.service, known, _reason(error))
            self.start(run, config, None)

    def _begin(self, made: Callable[..., Any], settings: dict[str, Any]) -> None:
        """Make Lightning's logger, find or make its run, and remember that. Raises ConfigError, or what the service raises."""
        server, before = self._server(), dict(os.environ)
        if self.service == "comet" and settings.get("online") is False:  # by which Lightning 2.6 would write no archive
            settings = {name: value for name, value in settings.items() if name != "online"}
            os.environ["COMET_START_ONLINE"] = "0"
        try:
            self._logger = made(**settings)
            identifier = getattr(self._logger, SERVICES[self.service].identifier, None)
        except TypeError as error:
            raise ConfigError("logger.settings", self.settings, " ".join(str(error).split())) from error
        finally:
            for name in ("COMET_START_ONLINE", SERVICES[self.service].server):
                if name not in before:  # MLflow sets its own, and a sweep's next run in this process would go there too
                    os.environ.pop(name, None)
        if identifier is not None:
            write_atomically(self._file, json.dumps({"id": str(identifier), "server": server}).encode())

    def _known(self) -> str | None:
        """Identifier of the run that goes on; None where it began on another server, or nothing is known."""
        try:
            refuse_link(self._file)
            node = json.loads(self._file.read_bytes()[:1000])
            same = node["server"] == self._server() and _IDENTIFIER.fullmatch(node["id"])
            return str(node["id"]) if same else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _server(self) -> str:
        """Sum of the address that is chosen, which may hold a password."""
        address = self.settings.get("tracking_uri") or os.environ.get(SERVICES[self.service].server) or ""
        return hashlib.sha256(str(address).encode()).hexdigest()

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
        except ConfigError:
            raise
        except Exception as error:  # each service raises errors of its own
            self._give_up(what, error)

    def _give_up(self, what: str, error: Exception) -> None:
        silent, self._broken = self._broken, True
        if silent:
            return
        log.warning("%s failed to %s (%s): nothing more goes there, the run goes on", self.service, what, _reason(error))


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


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
