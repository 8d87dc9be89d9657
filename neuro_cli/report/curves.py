"""Figures over generations and over wall time: one per metric, each group of runs a line."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from neuro_cli.core.metric import LOWER, Metric
from neuro_cli.report.downsample import Curve, Points, curve, points_of_each
from neuro_cli.report.figure import MANY, Item, Picture, amount, describe, draw, fit_to_points, new_plot, without_first
from neuro_cli.report.runs import Group, ReportedRun

LEGEND, MEMBERS = "runs", "members"
LAST = ("seconds", "candidates_per_second", "steps_per_second", "bytes_sent", "bytes_received")  # figures after all others
LONGEST = 1e9  # seconds of a run, whose folder may be a stranger's
ELAPSED, MILLI = "elapsed_seconds", 1000  # places of a curve are whole numbers: milliseconds
OF_MEMBER = re.compile(r"member_(\d+)_(.+)")


def columns_of(groups: Sequence[Group]) -> list[str]:
    """Return the columns that some run measured, without the seconds of phases, which have a figure of their own."""
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in run.metrics.measured())
    return sorted((name for name in names if not name.startswith("seconds_") and name != ELAPSED), key=lambda name: name in LAST)


def constants(groups: Sequence[Group], columns: Iterable[str]) -> dict[str, float]:
    """Return the columns with one value in all rows of all runs, and that value."""
    values = {}
    for name in columns:
        every = np.concatenate([run.metrics[name] for group in groups for run in group.runs])
        seen = np.unique(every[np.isfinite(every)])
        if len(seen) == 1 and len(every) > 1:
            values[name] = float(seen[0])
    return values


def mirrored(groups: Sequence[Group], columns: Sequence[str]) -> dict[str, str]:
    """Return the columns that negate an earlier one in all rows of all runs, with that one, whose figure serves both."""
    runs = [run for group in groups for run in group.runs]
    pairs: dict[str, str] = {}
    for place, name in enumerate(columns):
        for other in columns[:place]:
            if other not in pairs and all(np.array_equal(run.metrics[name], -run.metrics[other], equal_nan=True) for run in runs):
                pairs[name] = other
                break
    return pairs


def pictures(groups: Sequence[Group], columns: Sequence[str], timed: bool = False) -> list[Picture]:
    """Return a figure for each of ``columns``; members of an ensemble share one per metric. ``timed``: over wall seconds."""
    points = points_of_each(len(groups) * len(columns))
    kinds: dict[tuple[str, bool], list[str]] = {}
    for name in columns:
        match = OF_MEMBER.fullmatch(name)
        kinds.setdefault((match[2], True) if match else (name, False), []).append(name)
    every = [(kind, of_members, _lines(groups, names, points, timed)) for (kind, of_members), names in kinds.items()]
    return [_picture(groups, kind, of_members, lines, timed) for kind, of_members, lines in every if lines]


def over_time(groups: Sequence[Group], columns: Sequence[str]) -> list[Picture]:
    """Return the figures of ``columns`` over the seconds of the run, tests and checkpoints included."""
    return pictures(groups, columns, timed=True)


def buckets(groups: Sequence[Group], columns: Sequence[str]) -> int:
    """Return the most generations that a point of these figures stands for."""
    points = points_of_each(len(groups) * len(columns))
    longest = max((int(run.metrics["generation"][-1]) for group in groups for run in group.runs if len(run.metrics)), default=1)
    return -(-(longest + 1) // points)


def _lines(groups: Sequence[Group], names: Sequence[str], points: int, timed: bool) -> list[tuple[str, Item, Curve]]:
    """Return the legend, item and data of each line. With one group colours are the members', with several the groups'."""
    lines = []
    for place, group in enumerate(groups):
        for name in names:
            data = curve([_timed(run, name) if timed else run.metrics.points(name) for run in group.runs], points)
            if data is None:
                continue
            match, single = OF_MEMBER.fullmatch(name), len(groups) == 1
            item = Item(
                f"{group.label}, member {match[1]}" if match else group.label, int(match[1]) if match and single else place
            )
            shown = replace(data, x=data.x / MILLI) if timed else data
            lines.append((MEMBERS if match and single else LEGEND, item, shown))
    return lines


def _timed(run: ReportedRun, name: str) -> Points:
    """Return the milliseconds and values of a column; a run of an earlier version has only the seconds of its generations."""
    seconds = run.metrics[ELAPSED]
    if not np.isfinite(seconds).any():
        seconds = np.cumsum(np.nan_to_num(run.metrics["seconds"]))
    known = np.isfinite(run.metrics[name]) & np.isfinite(seconds) & (seconds >= 0) & (seconds < LONGEST)
    return np.round(seconds[known] * MILLI), run.metrics[name][known]


def _picture(
    groups: Sequence[Group], name: str, of_members: bool, lines: Sequence[tuple[str, Item, Curve]], timed: bool
) -> Picture:
    x, bare = "wall seconds" if timed else "generation", len(lines) > MANY
    plot, curves = new_plot(x), [data for _, _, data in lines]
    describe(plot, [(draw(plot, legend, item, data, bare=bare), data) for legend, item, data in lines], x)
    fit_to_points(plot, curves)
    metric = metric_of(groups, name)
    note = "Lower is better." if metric is not None and metric.better == LOWER else ""
    if name == "seconds" and without_first([data.most for data in curves], plot):
        note = "The first generation compiles and warms up; it is cut off at the top."
    title = heading_of(groups, name) + (" of each member" if of_members else "") + (" over wall time" if timed else "")
    ends = [
        f"{item.label} {amount(float(data.mean[-1]))}" + (f" after {amount(float(data.x[-1]))} s" if timed else "")
        for _, item, data in lines
    ]
    return Picture(title, plot, f"{title}{'' if timed else ' over generations'}; last: {'; '.join(ends)}", note)


def metric_of(groups: Sequence[Group], name: str) -> Metric | None:
    """Return the metric that some run's task declares under ``name``."""
    return next((metric for group in groups for run in group.runs for metric in run.job.metrics if metric.name == name), None)


def heading_of(groups: Sequence[Group], name: str) -> str:
    """Return a column's name in words."""
    metric = metric_of(groups, name)
    return metric.heading if metric is not None else name.replace("_", " ")
