"""Runs of a report with the content of their folders, grouped where they differ only in their seed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.report.run_state import RunState, read_job
from neuro_cli.report.table import differing, short_names
from neuro_cli.run_folder.config import config_of
from neuro_cli.run_folder.identity import flatten
from neuro_cli.run_folder.metrics import Metrics, read_metrics
from neuro_cli.run_folder.saved_summary import read_summary

SEED = "seed"
FEW, LONGEST = 3, 44  # most keys of a name, and most characters: what a legend on a phone shows


@dataclass(frozen=True)
class ReportedRun:
    """Run with the content of its folder. ``config``: dotted keys."""

    job: RunState
    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    metrics: Metrics

    @property
    def name(self) -> str:
        return self.job.name


@dataclass(frozen=True)
class Group:
    """Group of runs that differ only in their seed, under one name: one line in every figure."""

    label: str
    runs: tuple[ReportedRun, ...]


def runs_of(jobs: Sequence[RunState]) -> list[ReportedRun]:
    """Return the jobs that have a folder, without studies; a peer of ``neuro evolve`` is followed by those that it started."""
    runs, listed = [], {job.path for job in jobs}
    for job in jobs:
        if job.path is None or job.study:
            continue
        runs.append(_run(job, job.path))
        peers = [path.parents[1] for path in job.path.glob("peers/*/.hydra/config.yaml")]
        for folder in sorted(set(peers) - listed, key=lambda folder: folder.name.zfill(9)):
            runs.append(_run(read_job(folder, f"{job.name}/peers/{folder.name}"), folder))
    return runs


def _run(job: RunState, path: Path) -> ReportedRun:
    ended = job.state in ("finished", "stopped")  # otherwise a summary belongs to an earlier session
    summary = read_summary(path) if ended else None
    return ReportedRun(job, path, flatten(config_of(path)), summary or {}, read_metrics(path / "metrics.csv"))


def groups_of(runs: Sequence[ReportedRun]) -> list[Group]:
    """Return the groups in the order of their first runs, each named by the overrides in which it differs."""
    together: dict[str, list[ReportedRun]] = {}
    for run in runs:
        rest = {key: value for key, value in run.config.items() if key != SEED}
        together.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(run)
    members = list(together.values())
    labels = _labels(members)
    return [Group(label, tuple(some)) for label, some in zip(labels, members, strict=True)]


def _labels(members: Sequence[Sequence[ReportedRun]]) -> list[str]:
    keys = [key for key in differing([some[0].job for some in members]) if key != SEED]
    names, labels = short_names(keys), []
    for some in members:
        overrides = some[0].job.overrides
        labels.append(", ".join(f"{names[key]}={overrides[key]}" for key in keys if key in overrides))
    if len(set(labels)) < len(labels) or not all(labels) or any(len(label) > LONGEST for label in labels):
        labels = _by_config([some[0] for some in members])
    seeds = [f" ({len(some)} seeds)" if len(some) > 1 else "" for some in members]
    return [label + count for label, count in zip(labels, seeds, strict=True)]


def _by_config(runs: Sequence[ReportedRun]) -> list[str]:
    """Name runs that no short list of typed keys tells apart: by a few keys of their configs, else by their folders."""
    if len(runs) == 1:
        return [described(runs[0]) or runs[0].name]
    keys = {key: values for key, values in differences(runs).items() if key != SEED}
    names = short_names(list(keys))
    labels = [", ".join(f"{names[key]}={values[place]}" for key, values in keys.items()) for place in range(len(runs))]
    if 0 < len(keys) <= FEW and max(map(len, labels)) <= LONGEST:
        return labels
    return [run.name for run in runs]


def described(run: ReportedRun) -> str:
    """Return a run's title, ``MNIST_10K on Digits, OpenAIES``; empty where its config has no classes."""
    model, task, algo = (str(run.config.get(f"{group}._target_", "")).rpartition(".")[2] for group in ("model", "task", "algo"))
    task = str(run.config.get("task.id") or task)
    return ", ".join(part for part in (f"{model} on {task}" if model and task else model or task, algo) if part)


def differences(runs: Sequence[ReportedRun]) -> dict[str, list[Any]]:
    """Return the keys in which the runs' configs differ, each with a value per run; None where a config lacks the key."""
    keys = dict.fromkeys(key for run in runs for key in run.config)
    values = {key: [run.config.get(key) for run in runs] for key in keys}
    return {key: some for key, some in values.items() if len({json.dumps(value, default=str) for value in some}) > 1}
