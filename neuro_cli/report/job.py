"""What a run folder says about its run: what it was, how it stands, what came out."""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from neuro_cli.core.errors import UserError
from neuro_cli.runner.logs import is_written, last_message

FAILED = "failed: "  # how the log begins its last line in a run that failed


@dataclass
class Job:
    """One run. ``state``: finished | stopped | failed | running; numbers are None where there are none yet."""

    name: str
    state: str
    overrides: dict[str, str] = field(default_factory=dict)
    generations: int = 0
    test_accuracy: float | None = None
    wall_seconds: float | None = None
    candidates_per_second: float | None = None
    ranks: int | None = None
    reason: str = ""


def read_job(run: Path, name: str) -> Job:
    """The run in the folder ``run``, called ``name``. Raises UserError for a folder whose files are not neuro's."""
    config = _config(run)
    summary = _summary(run / "summary.json")
    job = Job(name, "running", _overrides(run))
    if summary is not None:
        for key in ("generations", "test_accuracy", "wall_seconds", "candidates_per_second", "ranks"):
            setattr(job, key, summary.get(key))
    else:
        _measure(job, run / "metrics.csv", config)
    if is_written(run):
        return job
    last = last_message(run)
    if summary is not None and not last.startswith(FAILED):
        job.state = "finished" if job.generations >= int(config.get("generations") or 0) else "stopped"
        job.reason = last.partition("; ")[0] if job.state == "stopped" else ""
    else:
        job.state = "failed"
        job.reason = last.removeprefix(FAILED) if last.startswith(FAILED) else f"ended without a word; last log line: {last}"
    return job


def _config(run: Path) -> dict[str, Any]:
    resumed = run / ".hydra" / "resumed.yaml"
    path = resumed if resumed.exists() else run / ".hydra" / "config.yaml"
    try:
        config = OmegaConf.to_container(OmegaConf.load(path))
    except Exception as error:  # a damaged file shows as almost any exception
        raise UserError(f"{path}: not a readable config: {' '.join(str(error).split())[:200]}") from error
    return {str(key): value for key, value in config.items()} if isinstance(config, dict) else {}


def _overrides(run: Path) -> dict[str, str]:
    path = run / ".hydra" / "overrides.yaml"
    texts = OmegaConf.to_container(OmegaConf.load(path)) if path.exists() else []
    pairs = (str(text).lstrip("+").partition("=") for text in texts or [])
    return {key: value for key, _, value in pairs}


def _summary(path: Path) -> dict[str, Any] | None:
    try:
        summary = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable summary: {error}") from error
    return summary if isinstance(summary, dict) else None


def _measure(job: Job, path: Path, config: dict[str, Any]) -> None:
    """What ``metrics.csv`` tells of a run without a summary."""
    ranks = config.get("ranks")
    job.ranks = ranks if isinstance(ranks, int) else None
    if not path.exists():
        return
    with path.open(newline="", errors="replace") as file:
        rows = [row for row in csv.DictReader(file) if row.get("candidates_per_second")]  # the last line may be torn
    if not rows:
        return
    job.generations = int(rows[-1]["generation"])
    seconds = [float(row["seconds"]) for row in rows]
    job.wall_seconds = sum(seconds)
    job.candidates_per_second = float(rows[-1]["candidates_per_second"])
    accuracies = [row["test_accuracy"] for row in rows if row["test_accuracy"]]
    job.test_accuracy = float(accuracies[-1]) if accuracies else None
