"""Where the time of a generation goes: the phases of ``metrics.csv`` on top of each other, and their means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Line, VArea

from neuro_cli.report.downsample import curve, points_of_each
from neuro_cli.report.figure import NUMBER, Item, Legend, Picture, amount, new_plot, without_first
from neuro_cli.report.runs import Group, ReportedRun
from neuro_cli.run_folder.palette import colour

LEGEND = "phases"
PHASE = "seconds_"
REST = "other"
DRAWN = 12  # groups that have a figure


@dataclass(frozen=True)
class Means:
    """Seconds of a mean generation of a group of runs: all, and by phase."""

    label: str
    seconds: float
    phases: dict[str, float]


def phases_of(groups: Sequence[Group]) -> list[str]:
    """The phases that some run measured, without their prefix."""
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in run.metrics.measured() if name.startswith(PHASE))
    return [name.removeprefix(PHASE) for name in names]


def legend(groups: Sequence[Group]) -> Legend:
    return Legend(LEGEND, "phases", [Item(name, place) for place, name in enumerate([*phases_of(groups), REST])], switches=False)


def means(groups: Sequence[Group], phases: Sequence[str]) -> list[Means]:
    """Of each group: the mean over the generations of all its runs."""
    found = []
    for group in groups:
        tables = [_parts(run, phases) for run in group.runs if len(run.metrics)]
        rows = np.concatenate(tables) if tables else np.zeros((0, len(phases) + 1))
        if len(rows):
            mean = rows.mean(axis=0)
            found.append(Means(group.label, float(mean.sum()), dict(zip([*phases, REST], map(float, mean), strict=True))))
    return found


def pictures(groups: Sequence[Group]) -> list[Picture]:
    """A figure for each of the first groups."""
    phases = phases_of(groups)
    shown = [group for group in groups if any(len(_parts(run, phases)) for run in group.runs)][:DRAWN]
    points = min(200, points_of_each(len(shown) * (len(phases) + 1)))
    return [_stack(group, phases, points) for group in shown]


def _parts(run: ReportedRun, phases: Sequence[str]) -> np.ndarray:
    """(G, phases + 1): seconds of every phase and of what is left of the generation; rows without a total are left out."""
    parts = np.stack([np.nan_to_num(run.metrics[PHASE + name]) for name in phases], axis=1)
    total = run.metrics["seconds"]
    whole = np.isfinite(total)
    rest = np.maximum(0.0, total - parts.sum(axis=1))  # phases that overlap may be more than their generation
    return np.concatenate([parts, rest[:, None]], axis=1)[whole]


def _stack(group: Group, phases: Sequence[str], points: int) -> Picture:
    plot = new_plot("generation", y_axis_label="seconds")
    columns: dict[str, np.ndarray] = {}
    below: np.ndarray | None = None
    for place in range(len(phases) + 1):
        data = curve([(_generations(run), _parts(run, phases)[:, place]) for run in group.runs], points)
        assert data is not None  # the group has rows
        below = np.zeros(len(data.x)) if below is None else below
        columns |= {"x": data.x, f"part{place}": data.mean, f"from{place}": below, f"to{place}": below + data.mean}
        below = columns[f"to{place}"]
    source = ColumnDataSource({name: values.astype(np.float32) for name, values in columns.items()})
    for place, name in enumerate([*phases, REST]):
        area = VArea(x="x", y1=f"from{place}", y2=f"to{place}", fill_color=colour(place), fill_alpha=0.85)
        plot.add_glyph(source, area, name=name, tags=[LEGEND, place, "", "area"])
    _tell(plot, source, [*phases, REST])
    plot.y_range.start = 0
    assert below is not None
    note = "The first generation sticks out of the top." if without_first([below], plot) else ""
    shares = ", ".join(f"{name} {amount(value)} s" for mean in means([group], phases) for name, value in mean.phases.items())
    return Picture(group.label, plot, f"seconds of a generation of {group.label} by phase; means: {shares}", note)


def _tell(plot: Any, source: ColumnDataSource, parts: Sequence[str]) -> None:
    """The seconds of all ``parts`` at the pointer: an area knows no point, so a line without colour lies on top."""
    top = plot.add_glyph(source, Line(x="x", y=f"to{len(parts) - 1}", line_alpha=0.0), tags=[LEGEND, 0, "", "still"])
    rows = [("generation", "@x{%.0f}"), *((name, f"@part{place}{{%.3g}} s") for place, name in enumerate(parts))]
    formats = {f"@{name}": NUMBER for name in source.column_names}
    plot.add_tools(HoverTool(renderers=[top], tooltips=rows, formatters=formats, mode="vline"))


def _generations(run: ReportedRun) -> np.ndarray:
    return run.metrics["generation"][np.isfinite(run.metrics["seconds"])]
