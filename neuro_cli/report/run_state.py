"""Reads a run's configuration, status and results from its folder."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neuro_cli.core.errors import UserError, printable
from neuro_cli.core.metric import Metric
from neuro_cli.run_folder import saved_yaml
from neuro_cli.run_folder.config import config_of
from neuro_cli.run_folder.declaration import UNDECLARED, declared
from neuro_cli.run_folder.log import is_written, messages
from neuro_cli.run_folder.metrics import read_metrics
from neuro_cli.run_folder.saved_summary import NUMBERS, read_summary, refuse_other_than_numbers

FAILED = "failed: "
STUDIES = ("known_methods", "what")  # keys of the configs of neuro scale and neuro bench
# log lines with the state of a run; the last one counts
TURNS = re.compile(r"(failed: |stopped after |queued again after |\d+ parameters, |search (begins|goes on|continues): )")


@dataclass
class RunState:
    """State of one run: finished | stopped | failed | running | waiting (on SLURM) | damaged; numbers are None until known.

    ``metrics``: what its evaluations measure, the headline first; ``values``: by name, those with a number.
    ``path``: its folder, None for a job that left none. ``study``: it is of ``neuro scale`` or ``neuro bench``.
    """

    name: str
    state: str
    overrides: dict[str, str] = field(default_factory=dict)
    generations: int = 0
    metrics: tuple[Metric, ...] = ()
    values: dict[str, float] = field(default_factory=dict)
    wall_seconds: float | None = None
    candidates_per_second: float | None = None
    ranks: int | None = None
    reason: str = ""
    path: Path | None = None
    study: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep texts as a terminal prints them: names of folders, overrides and log lines are anybody's."""
        object.__setattr__(self, name, printable(value) if isinstance(value, str) else value)


def read_job(run: Path, name: str) -> RunState:
    """Read the run in the folder ``run``, called ``name``. Raises UserError for a folder whose files are not neuro's."""
    config = config_of(run)
    job = RunState(name, "running", _overrides(run), path=run, study=any(key in config for key in STUDIES))
    if job.study:
        job.state, job.reason = ("finished", "") if results_of(run) else ("failed", "no results: failed, or still at work")
        return job
    summary, metrics = read_summary(run), declared(run)
    job.metrics = metrics or UNDECLARED
    if not is_written(run):
        job.state, job.reason = _ended(run, config.get("generations") or 0, summary)
    if summary is not None and job.state in ("finished", "stopped"):
        _take(job, run, summary)
        if "cluster" not in config and (problem := read_metrics(run / "metrics.csv").problem):
            job.state, job.reason = "damaged", f"metrics.csv: {problem}"
    else:  # a summary would be of an earlier session
        _measure(job, run / "metrics.csv", config.get("ranks"))
    if not metrics:  # the folder of an earlier version: what it has measured says what its headline is
        job.metrics = tuple(sorted(UNDECLARED, key=lambda metric: metric.name not in job.values))
    return job


def _ended(run: Path, generations: int, summary: dict[str, Any] | None) -> tuple[str, str]:
    """Return (state, reason) of a run that no process works on; a search says itself that it is complete."""
    lines = messages(run)
    turn = next((line for line in reversed(lines) if TURNS.match(line)), "")
    if turn.startswith(FAILED):
        return "failed", turn.removeprefix(FAILED)
    if summary is not None and summary.get("complete", (summary.get("generations") or 0) >= generations):
        return "finished", ""
    if turn.startswith(("stopped", "queued")):
        return "stopped", turn.partition("; ")[0]
    return "failed", f"ended without a word; last log line: {lines[-1]}" if lines else "no log line"


def results_of(study: Path) -> list[Path]:
    """Return the CSV files that ``neuro scale`` or ``neuro bench`` left in a run's folder."""
    return sorted(path for path in study.glob("*.csv") if path.is_file())


def _overrides(run: Path) -> dict[str, str]:
    path = run / ".hydra" / "overrides.yaml"
    texts = saved_yaml.read(path) if path.exists() else []
    if not isinstance(texts, list):
        raise UserError(f"{path}: not a list of overrides")
    pairs = [str(text).lstrip("+").partition("=") for text in texts]
    # model._target_=my.Net chooses a model as model=NAME does, and _partial_ tells no runs apart
    pairs = [(key.removesuffix("._target_"), equals, value) for key, equals, value in pairs if not key.endswith("._partial_")]
    return {printable(key): printable(value) for key, _, value in pairs}


def _take(job: RunState, run: Path, summary: dict[str, Any]) -> None:
    """Copy the numbers of the ``summary`` into ``job``. Raises UserError."""
    for key in NUMBERS:
        setattr(job, key, summary.get(key))
    refuse_other_than_numbers(run, summary, [metric.name for metric in job.metrics])
    job.values = {metric.name: summary[metric.name] for metric in job.metrics if summary.get(metric.name) is not None}


def _measure(job: RunState, path: Path, ranks: Any) -> None:
    """Copy the numbers of ``metrics.csv`` into the job of a run without a summary."""
    job.ranks = ranks if isinstance(ranks, int) else None
    metrics = read_metrics(path)
    complete = np.isfinite(metrics["candidates_per_second"])
    if not complete.any():
        return
    job.generations = int(metrics["generation"][complete][-1])
    job.wall_seconds = float(np.nansum(metrics["seconds"][complete]))
    job.candidates_per_second = float(metrics["candidates_per_second"][complete][-1])
    for metric in job.metrics:
        _, values = metrics.points(metric.name)
        if len(values):
            job.values[metric.name] = float(values[-1])
