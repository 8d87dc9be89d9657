"""Tables of the page, as plain cells: the template draws them, its script sorts them."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuro_cli.core.metric import Metric
from neuro_cli.report.curves import OF_MEMBER
from neuro_cli.report.figure import amount
from neuro_cli.report.runs import ReportedRun, differences
from neuro_cli.report.table import differing, headlines
from neuro_cli.run_folder.identity import flatten
from neuro_cli.run_folder.rows import Rows, read_rows

SHOWN = 400  # most rows of a table
NUMBER = re.compile(r"[-+]?\d{1,18}(\.\d*)?([eE][-+]?\d{1,2})?")
VERSIONS = ("neuro", "python", "torch", "numpy", "numba", "mpi")


@dataclass(frozen=True)
class TableCell:
    """Cell: ``text`` for the reader, ``key`` for sorting (a number or a text), ``link``: a relative address."""

    text: str
    key: float | str = ""
    link: str = ""
    state: str = ""


@dataclass
class Table:
    """Table with its caption, and a note under it."""

    caption: str
    columns: list[str]
    rows: list[list[TableCell]]
    note: str = ""
    numeric: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        keys = [[row[place].key for row in self.rows if row[place].text] for place in range(len(self.columns))]
        self.numeric = [bool(some) and all(isinstance(key, int | float) for key in some) for some in keys]


def text_cell(text: str) -> TableCell:
    """Return the cell of a text, sorted as a text."""
    return TableCell(text, text)


def cell(value: Any) -> TableCell:
    """Return the cell of a summary's value, or of a text as it was typed; a number is sorted as one."""
    if value is None or value == "":
        return TableCell("")
    if isinstance(value, bool):
        return TableCell(str(value).lower(), str(value))
    if isinstance(value, int | float):
        return TableCell(amount(value), value)
    text = str(value)
    return TableCell(text, float(text) if NUMBER.fullmatch(text) else text)


def number(row: dict[str, str], column: str) -> float | None:
    """Return the number in a cell of a row; None where it is not finite."""
    try:
        value = float(row.get(column) or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def final(runs: Sequence[ReportedRun], link: Callable[[Path], str]) -> Table:
    """Return the table of every run's results. ``link``: from a path to its relative address."""
    jobs = [run.job for run in runs]
    metrics = list({metric.name: metric for job in jobs for metric in job.metrics if metric.name in job.values}.values())
    first = [metric for metric in headlines(jobs) if metric in metrics]
    further = [metric for metric in metrics if metric not in first and not OF_MEMBER.fullmatch(metric.name)]
    keys = differing(jobs)
    rows = [_final(run, keys, first, further, link) for run in runs]
    columns = ["run", *keys, "state", "reason", "generations", *(metric.heading for metric in first), "wall seconds"]
    columns += ["candidates per second", "ranks", *(metric.heading for metric in further), "parameters", "megabytes sent"]
    return _without_empty(Table("Final figures", columns, rows))


def _final(
    run: ReportedRun, keys: Sequence[str], first: Sequence[Metric], further: Sequence[Metric], link: Callable[[Path], str]
) -> list[TableCell]:
    job = run.job
    cost = (job.wall_seconds, job.candidates_per_second, job.ranks)
    return [
        TableCell(run.name, run.name, link(run.path)),
        *(cell(job.overrides.get(key)) for key in keys),
        TableCell(job.state, job.state, state=job.state),
        text_cell(job.reason),
        cell(job.generations),
        *(cell(job.values.get(metric.name)) for metric in first),
        *map(cell, cost),
        *(cell(job.values.get(metric.name)) for metric in further),
        cell(run.summary.get("parameters")),
        cell(_megabytes(run)),
    ]


def _megabytes(run: ReportedRun) -> float | None:
    sent = run.metrics["bytes_sent"]
    total = float(sent[sent == sent].sum()) / 1e6
    return total or None


def config_table(runs: Sequence[ReportedRun]) -> Table | None:
    """Return the keys in which configs differ: a row per key, or a row per run where there are more runs than keys."""
    keys = differences(runs)
    if not keys:
        return None
    cells = [[_config_cell(value, key, run) for value, run in zip(values, runs, strict=True)] for key, values in keys.items()]
    corner, heads, names = "key", list(keys), [run.name for run in runs]
    if len(runs) > max(8, len(keys)):
        corner, heads, names, cells = "run", names, heads, [list(column) for column in zip(*cells, strict=True)]
    rows = [[text_cell(head), *line] for head, line in zip(heads, cells, strict=True)]
    others = len(set().union(*(run.config for run in runs))) - len(keys)
    note = f"{others} further keys have one value in all configs."
    return Table("Configuration: what differs", [corner, *names], rows, note)


def typed_table(run: ReportedRun) -> Table:
    """Return the overrides that were typed for a run."""
    rows = [[text_cell(key), text_cell(value)] for key, value in run.job.overrides.items()]
    note = "All else has the defaults of the command; .hydra/config.yaml has every key."
    return Table("Configuration: what was typed", ["key", "value"], rows, note)


def _config_cell(value: Any, key: str, run: ReportedRun) -> TableCell:
    """Return the cell of a config's value as written; a key that the config lacks differs from one that is null."""
    if key not in run.config:
        return TableCell("not there", "")
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return TableCell(text, float(value) if numeric else text)


def machines(runs: Sequence[ReportedRun]) -> Table | None:
    """Return device, world, versions and git revision of every run that has a summary; a line for runs that agree."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        if run.summary:
            lines.setdefault(_machine(run.summary), []).append(run.name)
    if not lines:
        return None
    rows = [[TableCell(_listed(names), names[0]), *map(cell, facts)] for facts, names in lines.items()]
    columns = ["runs", "device", "ranks", "threads per rank", "distribution", "git revision", *VERSIONS]
    return _without_empty(Table("Device and versions", columns, rows))


def _machine(summary: dict[str, Any]) -> tuple[str, ...]:
    flat = flatten({"versions": summary.get("versions") or {}})
    revision, _, dirty = str(summary.get("git_revision") or "").partition("-")
    facts = [summary.get(name) for name in ("device", "ranks", "threads", "distribution")]
    facts += [f"{revision[:12]}{' with changes' if dirty else ''}", *(flat.get(f"versions.{name}") for name in VERSIONS)]
    return tuple("" if fact is None else str(fact) for fact in facts)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def csv_table(path: Path) -> Table:
    """Return the table of a CSV file."""
    return rows_table(path.name, read_rows(path))


def rows_table(caption: str, rows: Rows) -> Table:
    """Return the table of ``rows``: constant columns go into the note, rows beyond ``SHOWN`` stay in the file."""
    names = list(rows[0]) if rows else []
    fixed = [name for name in names if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    shown = [name for name in names if name not in fixed]
    notes = [f"The first {SHOWN} of {len(rows):,} rows; the file has all."] if len(rows) > SHOWN else []
    same = ", ".join(f"{name} = {rows[0][name]}" for name in fixed if rows[0][name])
    notes += [f"In all rows: {same}."] if same else []
    return Table(caption, shown, [[_short(row[name]) for name in shown] for row in rows[:SHOWN]], " ".join(notes))


def _short(text: str) -> TableCell:
    """Return the cell of a CSV file's text, a fraction with few digits."""
    full = cell(text)
    return TableCell(amount(full.key), full.key) if isinstance(full.key, float) and len(text) > 8 else full


def _without_empty(table: Table) -> Table:
    kept = [place for place in range(len(table.columns)) if any(row[place].text for row in table.rows)]
    rows = [[row[place] for place in kept] for row in table.rows]
    return Table(table.caption, [table.columns[place] for place in kept], rows, table.note)
