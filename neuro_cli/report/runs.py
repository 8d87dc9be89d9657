"""The runs of a report with all that their folders say, and the runs that differ in nothing but their seed put together."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.report.run_state import RunState, read_job, read_summary
from neuro_cli.report.table import differing
from neuro_cli.run_folder.config import config_of
from neuro_cli.run_folder.identity import flatten
from neuro_cli.run_folder.metrics import Metrics, read_metrics

SEED = "seed"
FEW, LONGEST = 3, 80  # keys and characters of a name


@dataclass(frozen=True)
class ReportedRun:
    """A run and what its folder says. ``config``: dotted keys."""

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
    """Runs that differ in their seed only, under one name: one line in every figure."""

    label: str
    runs: tuple[ReportedRun, ...]


def runs_of(jobs: Sequence[RunState]) -> list[ReportedRun]:
    """The jobs that have a folder, studies aside; after a peer of ``neuro evolve`` those that it started beside itself."""
    found, known = [], {job.path for job in jobs}
    for job in jobs:
        if job.path is None or job.study:
            continue
        found.append(_run(job, job.path))
        peers = [path.parents[1] for path in job.path.glob("peers/*/.hydra/config.yaml")]
        for folder in sorted(set(peers) - known, key=lambda folder: folder.name.zfill(9)):
            found.append(_run(read_job(folder, f"{job.name}/peers/{folder.name}"), folder))
    return found


def _run(job: RunState, path: Path) -> ReportedRun:
    summary = read_summary(path) if job.state in ("finished", "stopped") else None  # else it is of an earlier session
    return ReportedRun(job, path, flatten(config_of(path)), summary or {}, read_metrics(path / "metrics.csv"))


def groups_of(runs: Sequence[ReportedRun]) -> list[Group]:
    """The groups in the order of their first runs, each named by the overrides that tell it from the others."""
    together: dict[str, list[ReportedRun]] = {}
    for run in runs:
        rest = {key: value for key, value in run.config.items() if key != SEED}
        together.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(run)
    members = list(together.values())
    labels = _labels(members)
    return [Group(label, tuple(some)) for label, some in zip(labels, members, strict=True)]


def _labels(members: Sequence[Sequence[ReportedRun]]) -> list[str]:
    keys = [key for key in differing([some[0].job for some in members]) if key != SEED]
    labels = []
    for some in members:
        overrides = some[0].job.overrides
        labels.append(", ".join(f"{key}={overrides[key]}" for key in keys if key in overrides))
    if len(set(labels)) < len(labels) or not all(labels):
        labels = _by_config([some[0] for some in members])
    seeds = [f" ({len(some)} seeds)" if len(some) > 1 else "" for some in members]
    return [label + count for label, count in zip(labels, seeds, strict=True)]


def _by_config(runs: Sequence[ReportedRun]) -> list[str]:
    """Names of runs that are told apart by what was not typed: by few keys of their configs, else by their folders."""
    if len(runs) == 1:
        return [described(runs[0]) or runs[0].name]
    keys = {key: values for key, values in differences(runs).items() if key != SEED}
    labels = [", ".join(f"{key}={values[place]}" for key, values in keys.items()) for place in range(len(runs))]
    if 0 < len(keys) <= FEW and max(map(len, labels)) <= LONGEST:
        return labels
    return [run.name for run in runs]


def described(run: ReportedRun) -> str:
    """Title of a run, by the names of its classes: ``MNIST_10K on Digits, OpenAIES``; empty where its config has none."""
    model, task, algo = (str(run.config.get(f"{group}._target_", "")).rpartition(".")[2] for group in ("model", "task", "algo"))
    return ", ".join(part for part in (f"{model} on {task}" if model and task else model or task, algo) if part)


def differences(runs: Sequence[ReportedRun]) -> dict[str, list[Any]]:
    """The keys of the configs in which runs differ, each with a value for every run; None where a config has no such key."""
    keys = dict.fromkeys(key for run in runs for key in run.config)
    values = {key: [run.config.get(key) for run in runs] for key in keys}
    return {key: some for key, some in values.items() if len({json.dumps(value, default=str) for value in some}) > 1}
