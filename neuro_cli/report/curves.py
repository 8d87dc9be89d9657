"""Figures over generations: a curve of every metric, each group of runs a line."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from neuro_cli.core.metric import LOWER, Metric
from neuro_cli.report.downsample import Curve, Points, curve, points_of_each
from neuro_cli.report.figure import MANY, Item, Picture, amount, draw, fit_to_points, new_plot, tell, without_first
from neuro_cli.report.runs import Group, ReportedRun

LEGEND = "runs"
TIME = ("seconds", "candidates_per_second", "steps_per_second")
BYTES = ("bytes_sent", "bytes_received")
LONGEST = 1e9  # seconds: a run folder may be a stranger's
ELAPSED, MILLI = "elapsed_seconds", 1000  # a curve's places are whole numbers: milliseconds
OF_MEMBER = re.compile(r"member_(\d+)_(.+)")


def columns_of(groups: Sequence[Group]) -> list[str]:
    """All that some run measured, the seconds of phases aside: those have a figure of their own."""
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in run.metrics.measured())
    return [name for name in names if not name.startswith("seconds_") and name != ELAPSED]


def constants(groups: Sequence[Group], columns: Iterable[str]) -> dict[str, float]:
    """The columns that have one value in all rows of all runs: a sentence tells them better than a figure."""
    found = {}
    for name in columns:
        values = [run.metrics[name] for group in groups for run in group.runs]
        seen = np.unique(np.concatenate(values))
        seen = seen[np.isfinite(seen)]
        if len(seen) == 1 and sum(len(some) for some in values) > 1:
            found[name] = float(seen[0])
    return found


def mirrored(groups: Sequence[Group], columns: Sequence[str]) -> dict[str, str]:
    """The columns that are the negative of an earlier one in all rows of all runs, with that one: its figure is theirs too."""
    runs = [run for group in groups for run in group.runs]
    found: dict[str, str] = {}
    for place, name in enumerate(columns):
        for other in columns[:place]:
            if other not in found and all(np.array_equal(run.metrics[name], -run.metrics[other], equal_nan=True) for run in runs):
                found[name] = other
                break
    return found


def pictures(groups: Sequence[Group], columns: Sequence[str]) -> list[Picture]:
    """A figure for each of ``columns``; those of an ensemble's members share one for each thing measured."""
    kinds = list(dict.fromkeys(_kind(name) for name in columns))
    points = points_of_each(len(groups) * len(columns))
    made = []
    for kind, of_members in kinds:
        names = [name for name in columns if _kind(name) == (kind, of_members)]
        made.append(_members(groups, kind, names, points) if of_members else _metric(groups, kind, points))
    return made


def over_time(groups: Sequence[Group], columns: Sequence[str]) -> list[Picture]:
    """A figure for each of ``columns`` over the seconds of the run, tests and checkpoints included."""
    points = points_of_each(len(groups) * len(columns))
    made = []
    for name in columns:
        plot, lines, last = new_plot("wall seconds"), [], []
        for place, group in enumerate(groups):
            data = curve([_timed(run, name) for run in group.runs], points)
            if data is not None:
                data = replace(data, x=data.x / MILLI)
                lines.append((draw(plot, LEGEND, Item(group.label, place), data, bare=len(groups) > MANY), data))
                last.append(f"{_last(group.label, data)} after {amount(float(data.x[-1]))} s")
        if lines:
            tell(plot, lines, "wall seconds")
            fit_to_points(plot, [data for _, data in lines])
            title = f"{heading_of(groups, name)} over wall time"
            made.append(Picture(title, plot, f"{title}; last: {'; '.join(last)}"))
    return made


def _timed(run: ReportedRun, name: str) -> Points:
    """Milliseconds and values of a column; of a run of an earlier version the sums of its generations' seconds."""
    seconds = run.metrics[ELAPSED]
    if not np.isfinite(seconds).any():
        seconds = np.cumsum(np.nan_to_num(run.metrics["seconds"]))
    known = np.isfinite(run.metrics[name]) & np.isfinite(seconds) & (seconds >= 0) & (seconds < LONGEST)
    return np.round(seconds[known] * MILLI), run.metrics[name][known]


def buckets(groups: Sequence[Group], columns: Sequence[str]) -> int:
    """How many generations the points of these figures stand for at most."""
    points = points_of_each(len(groups) * len(columns))
    longest = max((int(run.metrics["generation"][-1]) for group in groups for run in group.runs if len(run.metrics)), default=1)
    return -(-(longest + 1) // points)


def _kind(name: str) -> tuple[str, bool]:
    match = OF_MEMBER.fullmatch(name)
    return (match[2], True) if match else (name, False)


def _metric(groups: Sequence[Group], name: str, points: int) -> Picture:
    plot, lines, last = new_plot("generation"), [], []
    for place, group in enumerate(groups):
        data = curve([run.metrics.points(name) for run in group.runs], points)
        if data is not None:
            lines.append((draw(plot, LEGEND, Item(group.label, place), data, bare=len(groups) > MANY), data))
            last.append(_last(group.label, data))
    tell(plot, lines, "generation")
    fit_to_points(plot, [data for _, data in lines])
    metric = metric_of(groups, name)
    note = "Lower is better." if metric is not None and metric.better == LOWER else ""
    if name == "seconds" and without_first([data.most for _, data in lines], plot):
        note = "The first generation compiles and warms up; it sticks out of the top."
    title = heading_of(groups, name)
    return Picture(title, plot, f"{title} over generations; last: {'; '.join(last)}", note)


def _members(groups: Sequence[Group], what: str, names: Sequence[str], points: int) -> Picture:
    plot, lines, last = new_plot("generation"), [], []
    for place, group in enumerate(groups):
        for name in names:
            data = curve([run.metrics.points(name) for run in group.runs], points)
            if data is None:
                continue
            match = OF_MEMBER.fullmatch(name)
            assert match is not None
            label = f"{group.label}, member {match[1]}"
            # with one group colours are the members', with several the groups'
            colours = Item(label, int(match[1]) if len(groups) == 1 else place)
            legend, bare = (LEGEND if len(groups) > 1 else "members"), len(groups) * len(names) > MANY
            lines.append((draw(plot, legend, colours, data, bare=bare), data))
            last.append(_last(label, data))
    tell(plot, lines, "generation")
    title = f"{heading_of(groups, what)} of each member"
    return Picture(title, plot, f"{title} over generations; last: {'; '.join(last)}", "Pointing at a line tells its member.")


def _last(label: str, data: Curve) -> str:
    return f"{label} {amount(float(data.mean[-1]))}"


def metric_of(groups: Sequence[Group], name: str) -> Metric | None:
    """The metric that some run's task declares under ``name``."""
    return next((metric for group in groups for run in group.runs for metric in run.job.metrics if metric.name == name), None)


def heading_of(groups: Sequence[Group], name: str) -> str:
    """A column in words."""
    metric = metric_of(groups, name)
    return metric.heading if metric is not None else name.replace("_", " ")
