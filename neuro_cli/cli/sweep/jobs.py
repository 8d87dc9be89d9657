"""Jobs of a resumed sweep: reads from each folder whether its job is finished, was cut off, failed or still runs."""

import logging
import shutil
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from omegaconf import OmegaConf

from neuro_cli.core.errors import UserError
from neuro_cli.core.metric import Metric
from neuro_cli.launch.lock import LOCK
from neuro_cli.report.run_state import TURNS
from neuro_cli.run_folder.config import config_of
from neuro_cli.run_folder.declaration import declared
from neuro_cli.run_folder.log import is_written, messages
from neuro_cli.run_folder.saved_summary import read_summary
from neuro_cli.runner.config import StopConfig, section
from neuro_cli.runner.stop_target import Target

log = logging.getLogger(__name__)

FAILED, LOST_RANKS = "failed: ", "failed: the world of "
WRITTEN = ("metrics.csv", "summary.json", "curves.png")  # files of a training, next to FOLDERS
FOLDERS = ("checkpoints", "tensorboard", "best")


class Left(Enum):
    """State in which an earlier command left a job, in the words of the line that is printed before it."""

    NOTHING = ""
    FINISHED = "finished already"
    CUT_OFF = "resumes from its last checkpoint"
    FAILED = "failed before: begins again"
    RUNNING = "runs elsewhere"


def left_in(run: Path) -> Left:
    """Return the state in which an earlier command left a job's folder. Raises UserError for files that it cannot have left."""
    if not run.is_dir() or not any(path.name not in (LOCK, ".hydra") for path in run.iterdir()):
        return Left.NOTHING
    if is_written(run):
        return Left.RUNNING
    turn = next((line for line in reversed(messages(run)) if TURNS.match(line)), "")
    if turn.startswith(FAILED) and not turn.startswith(LOST_RANKS):
        return Left.FAILED
    if _ended_as_asked(run, turn):
        return Left.FINISHED
    return Left.CUT_OFF


def _ended_as_asked(run: Path, turn: str) -> bool:
    """Return whether the run did all its generations, or ended by its own ``stop.metric`` or ``time_limit``."""
    summary = read_summary(run)
    if summary is None:
        return False
    if turn.startswith("stopped after ") and "(time_limit=" in turn:
        return True
    try:
        config = config_of(run)
    except UserError:  # a kill has cut the file short: the job writes it again
        return False
    if not isinstance(config.get("generations"), int):
        return False
    if (summary.get("generations") or 0) >= config["generations"]:
        return True
    keys = config.get("stop") or {}
    target = Target(section(StopConfig, keys, "stop."), declared(run))
    measured = keys.get("metric") is not None and isinstance(summary.get(keys["metric"]), int | float)
    return measured and target.reached(summary)


def refuse_other_job(run: Path, overrides: Sequence[str]) -> None:
    """Raise UserError when the folder holds a job with other overrides than the sweep's: its results would be lost.

    Hydra writes them before the job runs; where a kill has cut the file short, its beginning must agree.
    """
    path = run / ".hydra" / "overrides.yaml"
    try:
        written = path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable: {error}") from error
    wanted = OmegaConf.to_yaml(OmegaConf.create(list(overrides)))
    if not wanted.startswith(written):
        hint = "a sweeper that draws its values needs a seed to resume (hydra.sweeper.sampler.seed=1)"
        raise UserError(f"{run}: holds a job with other overrides than {' '.join(overrides)}; {hint}; else choose a new folder")


def clear(run: Path) -> None:
    """Remove the files of a failed training, so that the job begins again. The log stays, and is continued."""
    for name in FOLDERS:
        shutil.rmtree(run / name, ignore_errors=True)
    for name in WRITTEN:
        (run / name).unlink(missing_ok=True)
    (run / ".hydra" / "resumed.yaml").unlink(missing_ok=True)


def headline_of(run: Path) -> float | None:
    """Return the value of a finished job for a sweeper that optimises: ``stop.metric`` if set, else the task's headline."""
    summary = read_summary(run) or {}
    metric = metric_of(run)
    value = summary.get(metric.name) if metric is not None else None
    return float(value) if isinstance(value, int | float) else None


def metric_of(run: Path) -> Metric | None:
    """Return the metric that a sweeper optimises: ``stop.metric``, or the task's headline; None before the run has begun."""
    metrics = declared(run)
    try:
        name = (config_of(run).get("stop") or {}).get("metric") if metrics else None
    except UserError:  # a job is writing it
        return None
    return next((metric for metric in metrics if name in (None, metric.name)), None)
