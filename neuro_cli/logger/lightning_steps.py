"""Last generation of a resumed run that MLflow or Comet has, by their own readers.

Each function gets Lightning's logger, the run's identifier there, and the folder for files without a server.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

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
