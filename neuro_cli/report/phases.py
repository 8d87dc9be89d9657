"""Time of a generation by phase: stacked areas and means, from the columns ``seconds_*`` of ``metrics.csv``."""

from collections.abc import Sequence

import numpy as np
from bokeh.models import ColumnDataSource, VArea

from neuro_cli.report.downsample import curve, points_of_each
from neuro_cli.report.figure import Item, Legend, Picture, amount, new_plot, without_first
from neuro_cli.report.runs import Group, ReportedRun
from neuro_cli.run_folder.palette import colour

LEGEND, PHASE, REST = "phases", "seconds_", "other"
DRAWN = 12  # groups with a figure


def phases_of(groups: Sequence[Group]) -> list[str]:
    """Return the phases that some run measured, without their prefix."""
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in run.metrics.measured() if name.startswith(PHASE))
    return [name.removeprefix(PHASE) for name in names]


def legend(phases: Sequence[str]) -> Legend:
    """Return the legend of the phases and of the rest of a generation."""
    return Legend(LEGEND, "phases", [Item(name, place) for place, name in enumerate([*phases, REST])], switches=False)


def means(group: Group, phases: Sequence[str]) -> dict[str, float]:
    """Return the mean seconds of each phase and of the rest, over all generations of the group's runs; empty without any."""
    rows = np.concatenate([_parts(run, phases)[1] for run in group.runs])
    return dict(zip([*phases, REST], map(float, rows.mean(axis=0)), strict=True)) if len(rows) else {}


def pictures(groups: Sequence[Group], phases: Sequence[str]) -> list[Picture]:
    """Return figures of the first groups."""
    shown = [group for group in groups if means(group, phases)][:DRAWN]
    points = min(200, points_of_each(len(shown) * (len(phases) + 1)))
    return [_stack(group, phases, points) for group in shown]


def _parts(run: ReportedRun, phases: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return generations (G,) and seconds (G, phases + 1) of every phase and of the rest, without rows that lack a total."""
    parts = np.stack([np.nan_to_num(run.metrics[PHASE + name]) for name in phases], axis=1)
    total = run.metrics["seconds"]
    rest = np.maximum(0.0, total - parts.sum(axis=1))  # phases that overlap may be more than their generation
    complete = np.isfinite(total)
    return run.metrics["generation"][complete], np.concatenate([parts, rest[:, None]], axis=1)[complete]


def _stack(group: Group, phases: Sequence[str], points: int) -> Picture:
    plot, names, below = new_plot("generation", y_axis_label="seconds"), [*phases, REST], np.zeros(0)
    runs = [_parts(run, phases) for run in group.runs]
    for place, name in enumerate(names):
        data = curve([(generations, parts[:, place]) for generations, parts in runs], points)
        assert data is not None  # the group has rows
        below = below if place else np.zeros(len(data.x))
        columns = {"x": data.x, "low": below, "high": below + data.mean}
        source = ColumnDataSource({key: values.astype(np.float32) for key, values in columns.items()})
        area = VArea(x="x", y1="low", y2="high", fill_color=colour(place), fill_alpha=0.85)
        plot.add_glyph(source, area, name=name, tags=[LEGEND, place, "", "area"])
        below = below + data.mean
    plot.y_range.start = 0
    note = "The first generation is cut off at the top." if without_first([below], plot) else ""
    shares = ", ".join(f"{name} {amount(value)} s" for name, value in means(group, phases).items())
    return Picture(group.label, plot, f"seconds of a generation of {group.label} by phase; means: {shares}", note)
