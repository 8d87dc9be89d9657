"""MLflow and Comet by Lightning's loggers, whose interface is log_hyperparams, log_metrics, finalize."""

import hashlib
import importlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import refuse_link, write_atomically
from neuro_cli.core.machine.current_folder import advice, trusted_by_user
from neuro_cli.core.messages.install import absent, install
from neuro_cli.logger.base import Tracker, reason

log = logging.getLogger(__name__)


ROW, SUMMARY = "time/seconds", "summary/generations"  # metrics that every row and every summary have


def mlflow_step(logger: Any, run: str, folder: Path, metric: str) -> int:
    """Return the last step of ``metric`` in MLflow's database or server, 0 without any."""
    return _last(point.step for point in logger.experiment.get_metric_history(run, metric))


def comet_step(logger: Any, run: str, folder: Path, metric: str) -> int:
    """Return the last step of ``metric`` at Comet, or in the run's archives if this process writes one; 0 without any.

    Comet fills an archive at the end of a session, so a killed session leaves an empty one.
    """
    if "Offline" in type(logger.experiment).__name__:
        return _last(step for path in folder.glob(f"{run}*.zip") for step in _steps_of(path, metric))
    from comet_ml.api import API

    experiment = API().get_experiment_by_key(run)
    return _last(int(point["step"]) for point in experiment.get_metrics(metric) if point["step"] is not None)


def _steps_of(path: Path, name: str) -> Iterable[int]:
    """Yield the steps of metric ``name`` in an archive; none if a kill cut it off, or left it empty."""
    try:
        with ZipFile(path) as archive:
            lines = archive.read("messages.json").splitlines() if archive.namelist() else []
            for line in lines:
                metric = json.loads(line)["payload"].get("metric") or {}
                if metric.get("metricName") == name:
                    yield int(metric["step"])
    except BadZipFile:
        return


def _last(steps: Iterable[int]) -> int:
    return max(steps, default=0)


STEPS: dict[str, Callable[[Any, str, Path, str], int]] = {"mlflow": mlflow_step, "comet": comet_step}


@dataclass(frozen=True)
class Service:
    """Class ``class_name`` of lightning.pytorch.loggers, and the ``package`` that it needs in addition to lightning.

    ``argument``: continues the run that the attribute ``identifier`` names. ``server``: environment variable of the address.
    """

    class_name: str
    package: str
    argument: str
    identifier: str
    server: str


SERVICES = {
    "mlflow": Service("MLFlowLogger", "mlflow", "run_id", "run_id", "MLFLOW_TRACKING_URI"),
    "comet": Service("CometLogger", "comet_ml", "experiment_key", "version", "COMET_URL_OVERRIDE"),
}
_IDENTIFIER = re.compile(r"[\w-]{1,100}")
# files of the current folder in which comet looks for its server, and the text that marks one as meant for comet
COMET_FILES = {".comet.config": "", ".env": "COMET_"}


class LightningLogger(Tracker):
    """Sender of metrics, config and summary to ``service``: mlflow | comet. ``settings``: arguments of Lightning's class.

    By default files go to a folder of the service's name in the run folder. A resumed run is the same run there, with the config
    of its start: ``SERVICE.json`` has its identifier. Raises UserError without the packages.
    """

    def __init__(self, service: str, settings: dict[str, Any] | None = None) -> None:
        if service not in SERVICES:
            raise ConfigError("logger.service", service, f"must be one of {', '.join(SERVICES)}")
        if settings is not None and not isinstance(settings, dict):
            raise ConfigError("logger.settings", settings, "must be arguments by name, {experiment_name: tries}")
        self.service = self.name = service
        self.settings = {key: value for key, value in (settings or {}).items() if value is not None}
        missing = absent("lightning", SERVICES[service].package)
        if missing:
            raise UserError(f"logger={service}: needs {', '.join(missing)}: {install(service)}")
        self._logger: Any = None
        self._summed = 0  # last generation whose summary the service has

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        if self.service == "comet":
            refuse_settings()
        kind = getattr(importlib.import_module("lightning.pytorch.loggers"), SERVICES[self.service].class_name)
        self._file = run / f"{self.service}.json"
        settings = {**self._place(run), **self.settings}
        identifier = self._previous() if resumed_at is not None else None
        if identifier is None:
            self._begin(kind, settings)
            self._logger.log_hyperparams(config)
            return
        try:
            self._begin(kind, {SERVICES[self.service].argument: identifier, **settings})
        except ConfigError:
            raise
        except Exception as error:  # the run was deleted, or the server does not answer
            log.warning("%s: cannot continue its run %s (%s): a new one begins", self.service, identifier, reason(error))
            self.start(run, config, None)
            return
        self._read(identifier, run / self.service, resumed_at or 0)

    def _read(self, identifier: str, folder: Path, resumed_at: int) -> None:
        """Set the last generations that the service has; after a failure, all of them."""
        prefix = f"{self.settings['prefix']}{self._logger.LOGGER_JOIN_CHAR}" if self.settings.get("prefix") else ""
        read = STEPS[self.service]
        try:
            self.recorded, self._summed = (read(self._logger, identifier, folder, prefix + metric) for metric in (ROW, SUMMARY))
        except Exception as error:  # each service raises its own kinds of errors
            self.recorded = resumed_at
            text = "%s: cannot read which rows run %s has (%s): rows that a kill lost stay missing there"
            log.warning(text, self.service, identifier, reason(error))

    def _begin(self, kind: Callable[..., Any], settings: dict[str, Any]) -> None:
        """Make Lightning's logger and save its run's identifier. Raises ConfigError, or errors of the service."""
        server, before = self._server(), dict(os.environ)
        if self.service == "comet" and settings.get("online") is False:  # Lightning 2.6 would write no archive
            settings = {name: value for name, value in settings.items() if name != "online"}
            os.environ["COMET_START_ONLINE"] = "0"
        try:
            self._logger = kind(**settings)
            identifier = getattr(self._logger, SERVICES[self.service].identifier, None)
        except TypeError as error:
            raise ConfigError("logger.settings", self.settings, " ".join(str(error).split())) from error
        finally:
            for name in ("COMET_START_ONLINE", SERVICES[self.service].server):
                if name not in before:  # MLflow sets its address, which a sweep's next run in this process would use too
                    os.environ.pop(name, None)
        if identifier is not None:
            write_atomically(self._file, json.dumps({"id": str(identifier), "server": server}).encode())

    def _previous(self) -> str | None:
        """Return the identifier of a resumed run; None where it began on another server or saved none."""
        try:
            refuse_link(self._file)
            node = json.loads(self._file.read_bytes()[:1000])
            same = node["server"] == self._server() and _IDENTIFIER.fullmatch(node["id"])
            return str(node["id"]) if same else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _server(self) -> str:
        """Return a hash of the server's address, which may contain a password."""
        address = self.settings.get("tracking_uri") or os.environ.get(SERVICES[self.service].server) or ""
        return hashlib.sha256(str(address).encode()).hexdigest()

    def _place(self, run: Path) -> dict[str, Any]:
        """Return the argument that puts files into the run folder, unless a server is chosen; MLflow writes a database."""
        if self.service == "comet":
            return {"offline_directory": str(run / self.service)}
        if self.service != "mlflow" or "tracking_uri" in self.settings or os.environ.get("MLFLOW_TRACKING_URI"):
            return {}
        (run / self.service).mkdir(parents=True, exist_ok=True)
        return {"tracking_uri": f"sqlite:///{(run / self.service).absolute()}/runs.db"}

    def send(self, metrics: dict[str, int | float], step: int) -> None:
        self._logger.log_metrics({name: float(value) for name, value in metrics.items()}, step=step)

    def finish(self, summary: dict[str, Any]) -> None:
        if self._logger is None:
            return
        numbers = {f"summary/{name}": float(value) for name, value in summary.items() if type(value) in (int, float)}
        step = int(summary.get("generations") or 0)
        try:
            if numbers and not 0 < step <= self._summed:
                self._logger.log_metrics(numbers, step=step)
        finally:  # a run that began is ended, whatever failed before
            self._logger.finalize("success")


def refuse_settings() -> None:
    """Raise UserError where comet would send the user's key to a server that a file of the current folder names."""
    for name, part in COMET_FILES.items():
        try:
            refused = "comet" not in trusted_by_user() and part in Path(name).read_text(errors="replace")
        except OSError:  # no such file
            continue
        if refused:
            raise UserError(
                f"logger=comet: {name} of the current folder could choose who gets your key; set variables COMET_* or "
                f"~/.comet.config in its place, or {advice('comet')}"
            )
