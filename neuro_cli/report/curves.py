"""Figures over generations and over wall time: one per metric, each group of runs a line."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from bokeh.models import Range1d

from neuro_cli.core.metric import LOWER, Metric
from neuro_cli.report.downsample import Points, curve, points_of_each
from neuro_cli.report.figure import Picture, Trace, amount, draw, new_plot
from neuro_cli.report.runs import Group, ReportedRun

LAST = ("seconds", "candidates_per_second", "steps_per_second", "bytes_sent", "bytes_received")  # figures after all others
LONGEST = 1e9  # seconds of a run, whose folder may be a stranger's
ELAPSED, MILLI = "elapsed_seconds", 1000  # places of a curve are whole numbers: milliseconds
FAR, RARE = 3.0, 4  # a generation so many times the median's sticks out; more of them are no exception
EARLY = 10  # generations in which loops are compiled
OF_MEMBER = re.compile(r"member_(\d+)_(.+)")


def columns_of(groups: Sequence[Group]) -> list[str]:
    """Return the columns that some run measured, without the seconds of phases, which have a table of their own."""
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


def pictures(groups: Sequence[Group], columns: Sequence[str], timed: bool = False) -> list[Picture]:
    """Return a figure for each of ``columns``; members of an ensemble share one per metric.

    ``timed``: over the seconds of the run, tests and checkpoints included.
    """
    points = points_of_each(len(groups) * len(columns))
    kinds: dict[tuple[str, bool], list[str]] = {}
    for name in columns:
        match = OF_MEMBER.fullmatch(name)
        kinds.setdefault((match[2], True) if match else (name, False), []).append(name)
    every = [(kind, of_members, _traces(groups, names, points, timed)) for (kind, of_members), names in kinds.items()]
    return [_picture(groups, kind, of_members, traces, timed) for kind, of_members, traces in every if traces]


def buckets(groups: Sequence[Group], columns: Sequence[str]) -> int:
    """Return the most generations that a point of these figures stands for."""
    points = points_of_each(len(groups) * len(columns))
    longest = max((int(run.metrics["generation"][-1]) for group in groups for run in group.runs if len(run.metrics)), default=1)
    return -(-(longest + 1) // points)


def _traces(groups: Sequence[Group], names: Sequence[str], points: int, timed: bool) -> list[Trace]:
    """Return the lines of a figure. With one group colours are the members', with several the groups'."""
    traces = []
    for place, group in enumerate(groups):
        for name in names:
            data = curve([_timed(run, name) if timed else run.metrics.points(name) for run in group.runs], points)
            if data is None:
                continue
            match = OF_MEMBER.fullmatch(name)
            label = f"{group.label}, member {match[1]}" if match else group.label
            colour = int(match[1]) if match and len(groups) == 1 else place
            traces.append(Trace(label, colour, replace(data, x=data.x / MILLI) if timed else data))
    return traces


def _timed(run: ReportedRun, name: str) -> Points:
    """Return the milliseconds and values of a column; a run of an earlier version has only the seconds of its generations."""
    seconds = run.metrics[ELAPSED]
    if not np.isfinite(seconds).any():
        seconds = np.cumsum(np.nan_to_num(run.metrics["seconds"]))
    usable = np.isfinite(run.metrics[name]) & np.isfinite(seconds) & (seconds >= 0) & (seconds < LONGEST)
    return np.round(seconds[usable] * MILLI), run.metrics[name][usable]


def _picture(groups: Sequence[Group], name: str, of_members: bool, traces: Sequence[Trace], timed: bool) -> Picture:
    x = "wall seconds" if timed else "generation"
    plot = new_plot(x)
    draw(plot, traces, x)
    metric = metric_of(groups, name)
    note = "Lower is better." if metric is not None and metric.better == LOWER else ""
    outliers = _outliers(traces) if name == "seconds" else None
    if outliers is not None:
        plot.y_range, places = Range1d(0.0, 1.1 * outliers[0]), outliers[1]
        near = "near " if any(trace.data.width > 1 for trace in traces) and not timed else ""
        where = " and ".join(f"{amount(place)} s" if timed else f"{near}generation {amount(place)}" for place in places)
        note = f"Cut off at the top, {FAR:g} times the median and more: {where}."
        note += " The first ones compile and warm up." if not timed and places[-1] <= EARLY else ""
    title = heading_of(groups, name) + (" of each member" if of_members else "") + (" over wall time" if timed else "")
    ends = [
        f"{trace.label} {amount(float(trace.data.mean[-1]))}" + (f" after {amount(float(trace.data.x[-1]))} s" if timed else "")
        for trace in traces
    ]
    return Picture(title, plot, f"{title}{'' if timed else ' over generations'}; last: {'; '.join(ends)}", note)


def _outliers(traces: Sequence[Trace]) -> tuple[float, list[float]] | None:
    """Return the greatest of all other values, and the places of at most :data:`RARE` that are far above; None without such."""
    top, places = 0.0, set[float]()
    for data in (trace.data for trace in traces):
        far = data.most > FAR * np.median(data.most)
        if len(data.most) > 2 and 0 < far.sum() <= RARE:
            places |= set(np.round(data.x[far], 1).tolist())
        else:
            far[:] = False
        top = max(top, float(data.most[~far].max()))
    return (top, sorted(places)) if 0 < len(places) <= RARE else None


def metric_of(groups: Sequence[Group], name: str) -> Metric | None:
    """Return the metric that some run's task declares under ``name``."""
    return next((metric for group in groups for run in group.runs for metric in run.job.metrics if metric.name == name), None)


def heading_of(groups: Sequence[Group], name: str) -> str:
    """Return a column's name in words."""
    metric = metric_of(groups, name)
    return metric.heading if metric is not None else name.replace("_", " ")
