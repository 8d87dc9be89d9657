"""Tables of the page, as plain cells that the template draws."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuro_cli.report.curves import OF_MEMBER
from neuro_cli.report.figure import amount
from neuro_cli.report.runs import Group, ReportedRun, differences
from neuro_cli.report.table import differing, headlines, short_names
from neuro_cli.run_folder.identity import flatten
from neuro_cli.run_folder.metrics import Rows

SHOWN = 400  # most rows of a table
FRACTION = re.compile(r"[-+]?\d*\.\d{7,}([eE][-+]?\d{1,2})?")  # fractions of more digits than a reader needs
VERSIONS = ("neuro", "python", "torch", "numpy", "numba", "mpi")
PHASE, REST = "seconds_", "other"


@dataclass(frozen=True)
class Cell:
    """Cell of a table. ``link``: a relative address; ``state``: of a run, which has a colour."""

    text: str
    link: str = ""
    state: str = ""


@dataclass
class Table:
    """Table with its caption, and a note under it."""

    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


def cell(value: Any) -> Cell:
    """Return the cell of a page's table for a summary's value, or for a text as it was typed."""
    if value is None:
        return Cell("")
    if isinstance(value, bool):
        return Cell(str(value).lower())
    return Cell(amount(value) if isinstance(value, int | float) else str(value))


def final(runs: Sequence[ReportedRun], link: Callable[[Path], str]) -> Table:
    """Return the table of every run's results. ``link``: from a path to its relative address."""
    jobs = [run.job for run in runs]
    metrics = list({metric.name: metric for job in jobs for metric in job.metrics if metric.name in job.values}.values())
    first = [metric for metric in headlines(jobs) if metric in metrics]
    further = [metric for metric in metrics if metric not in first and not OF_MEMBER.fullmatch(metric.name)]
    keys = differing(jobs)
    rows = []
    for run in runs:
        job = run.job
        values = [job.overrides.get(key) for key in keys], [job.values.get(metric.name) for metric in first]
        cost = (job.wall_seconds, job.candidates_per_second, job.ranks)
        rest = (*(job.values.get(metric.name) for metric in further), run.summary.get("parameters"), _megabytes(run))
        state = (Cell(job.state, state=job.state), cell(job.reason))
        rows.append([Cell(run.name, link(run.path)), *state, *map(cell, (*values[1], *values[0], job.generations, *cost, *rest))])
    names = short_names(keys)
    columns = ["run", "state", "reason", *(metric.heading for metric in first), *(names[key] for key in keys), "generations"]
    columns += [
        "wall seconds",
        "candidates per second",
        "ranks",
        *(metric.heading for metric in further),
        "parameters",
        "megabytes sent",
    ]
    return _without_empty(Table("Final figures", columns, rows))


def _megabytes(run: ReportedRun) -> float | None:
    sent = run.metrics["bytes_sent"]
    total = float(sent[sent == sent].sum()) / 1e6
    return total or None


def phases(groups: Sequence[Group]) -> Table | None:
    """Return the mean seconds of a generation by phase (rank 0), with their shares; None where no run measured them."""
    runs = [run for group in groups for run in group.runs]
    names = list(dict.fromkeys(name for run in runs for name in run.metrics.measured() if name.startswith(PHASE)))
    if not names:
        return None
    rows = []
    for group in groups:
        parts = np.concatenate([_parts(run, names) for run in group.runs])
        if len(parts):
            mean = [float(value) for value in parts.mean(axis=0)]
            total = sum(mean)
            shares = [f"{amount(value)} ({value / total:.0%})" if total else "" for value in mean]
            rows.append([Cell(group.label), Cell(amount(total)), *map(Cell, shares)])
    columns = ["runs", "all", *(name.removeprefix(PHASE) for name in names), REST]
    return Table("Mean seconds of a generation", columns, rows)


def _parts(run: ReportedRun, names: Sequence[str]) -> np.ndarray:
    """Return seconds (G, phases + 1) of every phase and of the rest, without rows that lack a total."""
    parts = np.stack([np.nan_to_num(run.metrics[name]) for name in names], axis=1)
    total = run.metrics["seconds"]
    rest = np.maximum(0.0, total - parts.sum(axis=1))  # phases that overlap may be more than their generation
    return np.concatenate([parts, rest[:, None]], axis=1)[np.isfinite(total)]


def config_table(runs: Sequence[ReportedRun]) -> Table | None:
    """Return the keys in which configs differ: a row per key, or a row per run where there are more runs than keys."""
    keys = differences(runs)
    if not keys:
        return None
    # a key that a config lacks differs from one that is null
    cells = [[Cell(_written(run.config[key]) if key in run.config else "not there") for run in runs] for key in keys]
    corner, heads, names = "key", list(keys), [run.name for run in runs]
    if len(runs) > max(8, len(keys)):
        corner, heads, names, cells = "run", names, heads, [list(column) for column in zip(*cells, strict=True)]
    rows = [[Cell(head), *line] for head, line in zip(heads, cells, strict=True)]
    others = len(set().union(*(run.config for run in runs))) - len(keys)
    return Table("Configuration: what differs", [corner, *names], rows, f"{others} further keys have one value in all configs.")


def _written(value: Any) -> str:
    """Return a value as YAML has it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def typed_table(run: ReportedRun) -> Table | None:
    """Return the overrides that were typed for a run; None where there were none."""
    rows = [[Cell(key), Cell(value)] for key, value in run.job.overrides.items()]
    if not rows:
        return None
    note = "All else has the defaults of the command; .hydra/config.yaml has every key."
    return Table("Configuration: what was typed", ["key", "value"], rows, note)


def machines(runs: Sequence[ReportedRun]) -> Table | None:
    """Return the page's table of device, world, versions and git revision of runs with a summary; a line for runs that agree."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        if run.summary:
            lines.setdefault(_machine(run.summary), []).append(run.name)
    if not lines:
        return None
    rows = [[Cell(_listed(names)), *map(cell, facts)] for facts, names in lines.items()]
    columns = ["runs", "device", "ranks", "threads", "distribution", "git revision", *VERSIONS]
    return _without_empty(Table("Device and versions", columns, rows))


def _machine(summary: dict[str, Any]) -> tuple[str, ...]:
    flat = flatten({"versions": summary.get("versions") or {}})
    revision, _, dirty = str(summary.get("git_revision") or "").partition("-")
    facts = [summary.get(name) for name in ("device", "ranks", "threads", "distribution")]
    facts += [f"{revision[:12]}{' with changes' if dirty else ''}", *(flat.get(f"versions.{name}") for name in VERSIONS)]
    return tuple("" if fact is None else str(fact) for fact in facts)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def rows_table(caption: str, rows: Rows) -> Table:
    """Return the table of ``rows``: constant columns go into the note, rows beyond ``SHOWN`` stay in the file."""
    names = list(rows[0]) if rows else []
    fixed = [name for name in names if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    shown = [name for name in names if name not in fixed]
    notes = [f"The first {SHOWN} of {len(rows):,} rows; the file has all."] if len(rows) > SHOWN else []
    same = ", ".join(f"{name} = {rows[0][name]}" for name in fixed if rows[0][name])
    notes += [f"In all rows: {same}."] if same else []
    cells = [[Cell(_short(row[name])) for name in shown] for row in rows[:SHOWN]]
    return Table(caption, shown, cells, " ".join(notes))


def _short(text: str) -> str:
    return amount(float(text)) if FRACTION.fullmatch(text) else text


def _without_empty(table: Table) -> Table:
    filled = [place for place in range(len(table.columns)) if any(row[place].text for row in table.rows)]
    rows = [[row[place] for place in filled] for row in table.rows]
    return Table(table.caption, [table.columns[place] for place in filled], rows, table.note)
