"""The tables of the page, as plain cells: the template draws them, its script sorts them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuro_cli.core.metric import Metric
from neuro_cli.report.curves import OF_MEMBER
from neuro_cli.report.figure import amount
from neuro_cli.report.run_state import RunState
from neuro_cli.report.runs import ReportedRun, differences
from neuro_cli.report.table import differing, headlines
from neuro_cli.run_folder.identity import flatten
from neuro_cli.run_folder.rows import Rows, read_rows

SHOWN = 400  # rows of a table
NUMBER = re.compile(r"[-+]?\d{1,18}(\.\d*)?([eE][-+]?\d{1,2})?")
VERSIONS = ("neuro", "python", "torch", "numpy", "numba", "mpi")


@dataclass(frozen=True)
class TableCell:
    """``text`` as it is read, ``key`` as it is sorted (a number or a text), ``link``: a relative address."""

    text: str
    key: float | str = ""
    link: str = ""
    state: str = ""


@dataclass
class Table:
    """``caption`` says what it is; ``note`` stands under it."""

    caption: str
    columns: list[str]
    rows: list[list[TableCell]]
    note: str = ""
    numeric: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        keys = [[row[place].key for row in self.rows if row[place].text] for place in range(len(self.columns))]
        self.numeric = [bool(some) and all(isinstance(key, int | float) for key in some) for some in keys]


def number(row: dict[str, str], column: str) -> float | None:
    """A cell of a row; None where it is no finite number."""
    try:
        value = float(row.get(column) or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def final(runs: Sequence[ReportedRun], link: Any) -> Table:
    """What came out of every run. ``link``: of a path to its relative address."""
    jobs = [run.job for run in runs]
    keys = differing(jobs)
    metrics = _measured(jobs)
    first = [metric for metric in headlines(jobs) if metric in metrics]
    further = [metric for metric in metrics if metric not in first and not OF_MEMBER.fullmatch(metric.name)]
    sent = any(run.metrics["bytes_sent"].any() for run in runs)
    rows = []
    for run in runs:
        rows.append([
            TableCell(run.name, run.name, link(run.path)),
            *(cell(run.job.overrides.get(key)) for key in keys),
            TableCell(run.job.state, run.job.state, state=run.job.state),
            TableCell(run.job.reason, run.job.reason),
            cell(run.job.generations),
            *(cell(run.job.values.get(metric.name)) for metric in first),
            *map(cell, (run.job.wall_seconds, run.job.candidates_per_second, run.job.ranks)),
            *(cell(run.job.values.get(metric.name)) for metric in further),
            cell(run.summary.get("parameters")),
            *([cell(_megabytes(run))] if sent else []),
        ])  # fmt: skip
    cost = ("wall seconds", "candidates per second", "ranks")
    columns = [*keys, "state", "reason", "generations", *(metric.heading for metric in first), *cost]
    columns += [*(metric.heading for metric in further), "parameters", *(["megabytes sent"] if sent else [])]
    return _without_empty(Table("Final figures", ["run", *columns], rows))


def _measured(jobs: Sequence[RunState]) -> list[Metric]:
    """The metrics of which some job has a value."""
    return list({metric.name: metric for job in jobs for metric in job.metrics if metric.name in job.values}.values())


def _megabytes(run: ReportedRun) -> float | None:
    sent = run.metrics["bytes_sent"]
    known = sent[sent == sent]
    return float(known.sum()) / 1e6 if len(known) else None


def cell(value: Any) -> TableCell:
    """A value of a summary, or a text as it was typed; one that is a number is sorted as one."""
    if value is None or value == "":
        return TableCell("")
    if isinstance(value, bool):
        return TableCell(str(value).lower(), str(value))
    if isinstance(value, int | float):
        return TableCell(amount(value), value)
    text = str(value)
    return TableCell(text, float(text) if NUMBER.fullmatch(text) else text)


def csv_cell(text: str) -> TableCell:
    """Of a CSV file: all digits of a fraction are for programs."""
    found = cell(text)
    return TableCell(amount(found.key), found.key) if isinstance(found.key, float) and len(text) > 8 else found


def config_table(runs: Sequence[ReportedRun]) -> Table | None:
    """The keys in which the configs differ: a column per run, or a row per run where there are more runs than keys."""
    keys = differences(runs)
    if not keys:
        return None
    note = f"{len(set().union(*(run.config for run in runs))) - len(keys)} further keys have one value in all configs."
    if len(runs) > max(8, len(keys)):
        rows = [
            [TableCell(run.name, run.name), *(config_cell(keys[key][place], key, run) for key in keys)]
            for place, run in enumerate(runs)
        ]
        return Table("Configuration: what differs", ["run", *keys], rows, note)
    rows = [
        [TableCell(key, key), *(config_cell(value, key, run) for value, run in zip(values, runs, strict=True))]
        for key, values in keys.items()
    ]
    return Table("Configuration: what differs", ["key", *(run.name for run in runs)], rows, note)


def typed_table(run: ReportedRun) -> Table:
    """What was typed for a run."""
    rows = [[TableCell(key, key), TableCell(value, value)] for key, value in run.job.overrides.items()]
    note = "All else has the defaults of the command; .hydra/config.yaml has every key."
    return Table("Configuration: what was typed", ["key", "value"], rows, note)


def config_cell(value: Any, key: str, run: ReportedRun) -> TableCell:
    """As written; a key that the config has not is told from one that is null."""
    if key not in run.config:
        return TableCell("not there", "")
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return TableCell(text, float(value) if number else text)


def machines(runs: Sequence[ReportedRun]) -> Table | None:
    """Device, world, versions and git revision of every run that has a summary; a line for runs that agree."""
    told: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        if run.summary:
            told.setdefault(_machine(run.summary), []).append(run.name)
    if not told:
        return None
    rows = [[TableCell(_listed(names), names[0]), *map(cell, facts)] for facts, names in told.items()]
    columns = ["runs", "device", "ranks", "threads per rank", "distribution", "git revision", *VERSIONS]
    return _without_empty(Table("Device and versions", columns, rows))


def _machine(summary: dict[str, Any]) -> tuple[str, ...]:
    flat = flatten({"versions": summary.get("versions") or {}})
    facts = [summary.get(name) for name in ("device", "ranks", "threads", "distribution")]
    revision, _, dirty = str(summary.get("git_revision") or "").partition("-")
    facts.append(f"{revision[:12]}{' with changes' if dirty else ''}")
    return tuple("" if fact is None else str(fact) for fact in [*facts, *(flat.get(f"versions.{name}") for name in VERSIONS)])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def csv_table(path: Path) -> Table:
    """A file as it is; columns with one value in all rows go into the note, and rows beyond ``SHOWN`` stay in the file."""
    return rows_table(path.name, read_rows(path))


def rows_table(caption: str, rows: Rows) -> Table:
    names = list(rows[0]) if rows else []
    fixed = [name for name in names if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    shown = [name for name in names if name not in fixed]
    notes = [f"The first {SHOWN} of {len(rows):,} rows; the file has all."] if len(rows) > SHOWN else []
    same = ", ".join(f"{name} = {rows[0][name]}" for name in fixed if rows[0][name])
    if same:
        notes.append(f"In all rows: {same}.")
    cells = [[csv_cell(row[name]) for name in shown] for row in rows[:SHOWN]]
    return Table(caption, shown, cells, " ".join(notes))


def _without_empty(table: Table) -> Table:
    kept = [place for place in range(len(table.columns)) if any(row[place].text for row in table.rows)]
    rows = [[row[place] for place in kept] for row in table.rows]
    return Table(table.caption, [table.columns[place] for place in kept], rows, table.note)
