"""Figure and table of architecture searches, from ``candidates.csv``."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Scatter
from bokeh.palettes import Colorblind8

from neuro_cli.core.metric import ACCURACY
from neuro_cli.report.downsample import MOST, curve
from neuro_cli.report.figure import Picture, Trace, amount, draw, hover, new_plot
from neuro_cli.report.runs import Group, ReportedRun
from neuro_cli.run_folder.rows import Rows, read_rows

FILE = "candidates.csv"
SCORE = "validation_accuracy"
BEST = 10  # candidates in the table
DOTS = 3_000  # most candidates that are drawn one by one
COLUMNS = ("candidate", "module", "layers", "parameters", SCORE, ACCURACY.name, "seconds")


def trained(run: ReportedRun) -> Rows:
    """Return the candidates that have a score, in their order; none of a run that is no search."""
    rows = [row for row in read_rows(run.path / FILE) if row.get("candidate", "").isdigit()]
    return [row for row in rows if _is_number(row.get(SCORE))]


def _is_number(text: str | None) -> bool:
    try:
        return math.isfinite(float(text or "nan"))
    except ValueError:
        return False


def failures(run: ReportedRun) -> int:
    """Return the number of candidates that failed."""
    return sum(bool(row.get("error")) for row in read_rows(run.path / FILE))


def picture(groups: Sequence[Group]) -> Picture | None:
    """Return the figure of every candidate and the best so far; None when no run is a search."""
    plot, traces = new_plot("candidate", y_axis_label="validation accuracy"), []
    scores = [[_scores(rows) for run in group.runs if (rows := trained(run))] for group in groups]
    single = sum(len(numbers) for some in scores for numbers, _ in some) <= DOTS
    for place, (group, some) in enumerate(zip(groups, scores, strict=True)):
        best = curve([(numbers, np.maximum.accumulate(values)) for numbers, values in some], MOST)
        if best is None:
            continue
        traces.append(Trace(group.label, place, best))
        if single:
            _dots(plot, group.label, place, some)
    if not traces:
        return None
    draw(plot, traces, "candidates")
    ends = "; ".join(f"{trace.label} {amount(float(trace.data.mean[-1]))}" for trace in traces)
    note = "Dots: candidates; line: the best so far." if single else f"More than {DOTS:,} candidates: the best so far alone."
    return Picture("candidates of a search", plot, f"best validation accuracy so far; last: {ends}", note)


def _dots(plot: Any, label: str, place: int, scores: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Draw a faint mark for every candidate."""
    x, y = (np.concatenate(parts).astype(np.float32) for parts in zip(*scores, strict=True))
    shade = Colorblind8[place % len(Colorblind8)]
    mark = Scatter(x="x", y="y", size=5, line_color=shade, fill_color=shade, line_alpha=0.35, fill_alpha=0.35)
    hover(plot, [plot.add_glyph(ColumnDataSource({"x": x, "y": y}), mark, name=label)], [("candidate", "x"), (SCORE, "y")])


def best_of(runs: Sequence[ReportedRun]) -> Rows:
    """Return the candidates with the best validation accuracy, each with its ``run``."""
    rows = [{"run": run.name, **{name: row.get(name) or "" for name in COLUMNS}} for run in runs for row in trained(run)]
    return sorted(rows, key=lambda row: -float(row[SCORE]))[:BEST]


def _scores(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    return np.array([int(row["candidate"]) for row in rows]), np.array([float(row[SCORE]) for row in rows])
