"""Figures over generations and over wall time: one per metric, each group of runs in a colour."""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from neuro_cli.core.metric import LOWER, Metric
from neuro_cli.report.figure import Picture, amount, drawn
from neuro_cli.report.runs import Group, ReportedRun
from neuro_cli.run_folder.plot import CYCLE, MARKED, Line, Panel

LAST = ("seconds", "candidates_per_second", "steps_per_second", "bytes_sent", "bytes_received")  # figures that come last
LONGEST = 1e9  # seconds of a run, whose folder may be a stranger's
ELAPSED = "elapsed_seconds"
MANY = len(CYCLE)  # lines of a figure, beyond which colours repeat, and it has no legend
OF_MEMBER = re.compile(r"member_(\d+)_(.+)")


def columns_of(groups: Sequence[Group]) -> list[str]:
    """Return the columns to draw curves of: those that some run measured, without the seconds of phases, which have a table."""
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in run.metrics.measured())
    return sorted((name for name in names if not name.startswith("seconds_") and name != ELAPSED), key=lambda name: name in LAST)


def constants(groups: Sequence[Group], columns: Iterable[str]) -> dict[str, float]:
    """Return the columns with one value in all rows of all runs, and that value."""
    values = {}
    for name in columns:
        every = np.concatenate([run.metrics[name] for group in groups for run in group.runs])
        seen = np.unique(every[np.isfinite(every)])
        if len(seen) == 1:
            values[name] = float(seen[0])
    return values


def pictures(groups: Sequence[Group], columns: Sequence[str], timed: bool = False) -> list[Picture]:
    """Return a figure for each of ``columns``; members of an ensemble share one per metric.

    ``timed``: over the seconds of the run, tests and checkpoints included, with a line for each run.
    """
    kinds: dict[tuple[str, bool], list[str]] = {}
    for name in columns:
        match = OF_MEMBER.fullmatch(name)
        kinds.setdefault((match[2], True) if match else (name, False), []).append(name)
    every = [(*kind, list(_lines(groups, names, timed))) for kind, names in kinds.items()]
    return [_picture(groups, name, of_members, lines, timed) for name, of_members, lines in every if lines]


def _lines(groups: Sequence[Group], names: Sequence[str], timed: bool) -> Iterator[tuple[str, Line]]:
    """Yield the lines of a figure and what each is of. With one group colours are the members', with several the groups'."""
    for place, group in enumerate(groups):
        for name in names:
            match = OF_MEMBER.fullmatch(name)
            label = f"{group.label}, member {match[1]}" if match else group.label
            colour = CYCLE[(int(match[1]) if match and len(groups) == 1 else place) % MANY]
            shown = label if 1 < len(groups) * len(names) <= MANY else ""
            each = [_timed(run, name) if timed else run.metrics.points(name) for run in group.runs]
            each = [(x, y) for x, y in each if len(x)]
            for number, (x, *values) in enumerate(each if timed else [_over_runs(each)] if each else []):
                middle, *ends = values
                low, high = ends or ((), ())
                marker = "." if len(x) <= MARKED else ""
                yield label, Line(x, middle, shown if not number else "", colour, marker=marker, low=low, high=high)


def _over_runs(runs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Return generations (G,), the mean over ``runs`` at each, and of several runs the least and the greatest value."""
    places = np.unique(np.concatenate([x for x, _ in runs]))
    table = np.full((len(runs), len(places)), np.nan)
    for row, (x, values) in zip(table, runs, strict=True):
        row[np.searchsorted(places, x)] = values
    ends = (np.nanmin(table, axis=0), np.nanmax(table, axis=0)) if len(runs) > 1 else ()
    return places, np.nanmean(table, axis=0), *ends


def _timed(run: ReportedRun, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds and values of a column; a run of an earlier version has only the seconds of its generations."""
    seconds = run.metrics[ELAPSED]
    if not np.isfinite(seconds).any():
        seconds = np.cumsum(np.nan_to_num(run.metrics["seconds"]))
    usable = np.isfinite(run.metrics[name]) & np.isfinite(seconds) & (seconds >= 0) & (seconds < LONGEST)
    return seconds[usable], run.metrics[name][usable]


def _picture(groups: Sequence[Group], name: str, of_members: bool, lines: Sequence[tuple[str, Line]], timed: bool) -> Picture:
    metric = metric_of(groups, name)
    title = heading_of(groups, name) + (" of each member" if of_members else "") + (" over wall time" if timed else "")
    options = {"xlabel": "wall seconds" if timed else "generation"}
    after = " after {} s" if timed else ""
    ends = [f"{label} {amount(float(line.y[-1]))}{after.format(amount(float(line.x[-1])))}" for label, line in lines]
    described = f"{title}{'' if timed else ' over generations'}; last: {'; '.join(ends)}"
    note = "Lower is better." if metric is not None and metric.better == LOWER else ""
    return drawn(title, Panel([line for _, line in lines], options, height=3.2), described, note)


def metric_of(groups: Sequence[Group], name: str) -> Metric | None:
    """Return the metric that some run's task declares under ``name``."""
    return next((metric for group in groups for run in group.runs for metric in run.job.metrics if metric.name == name), None)


def heading_of(groups: Sequence[Group], name: str) -> str:
    """Return the heading of a column's curve in words."""
    metric = metric_of(groups, name)
    return metric.heading if metric is not None else name.replace("_", " ")
