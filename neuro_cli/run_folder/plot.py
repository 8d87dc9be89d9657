"""The plot of a run: fitness and the headline of its evaluations against generation, from its ``metrics.csv``."""

import csv
import logging
import math
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import refuse_link
from neuro_cli.core.metric import FITNESS, FRACTION, Metric

log = logging.getLogger(__name__)

# of the palette of Okabe and Ito: told apart by colour-blind readers and in print
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
MARKED = 60  # with no more points than this, each is marked

Points = tuple[list[int], list[float]]


# a matplotlibrc in the current folder may ask for LaTeX, which reads and runs what the file says
@matplotlib.rc_context(matplotlib.rcParamsDefault)
def plot_run(metrics_csv: Path, png: Path, headline: Metric) -> None:
    """Draw the file ``png``; without a row in ``metrics_csv`` nothing is drawn, and the log says so.

    Raises UserError when the file cannot be written.
    """
    with metrics_csv.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        log.warning("%s has no rows: nothing to plot", metrics_csv)
        return
    figure = Figure(figsize=(8, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="generation", ylabel="fitness")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    _draw(axes, points_of(rows, "fitness_best"), "best fitness", ORANGE)
    _draw(axes, points_of(rows, "fitness_mean"), "mean fitness", BLUE)
    tested = points_of(rows, headline.name)
    beside = axes if headline.unit == FITNESS or not tested[0] else _other_axis(axes, headline)
    if tested[0]:
        _draw(beside, tested, f"{headline.label} (last {headline.text(tested[1][-1])})", GREEN, "--")
    handles, labels = axes.get_legend_handles_labels()
    if beside is not axes:
        handles, labels = [
            ours + theirs for ours, theirs in zip((handles, labels), beside.get_legend_handles_labels(), strict=True)
        ]
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=len(handles), frameon=False)
    refuse_link(png)
    try:
        figure.savefig(png)
    except OSError as error:
        raise UserError(f"{png}: cannot be written: {error.strerror}") from error


def _other_axis(axes: Axes, metric: Metric) -> Axes:
    """An axis on the right, for a metric that is of another unit than the fitness."""
    right = axes.twinx()
    right.set(ylabel=metric.heading)
    if metric.unit == FRACTION:
        right.set(ylim=(0, 1))
    return right


def points_of(rows: list[dict[str, str]], column: str) -> Points:
    """Generations and values of a column where it has a finite value."""
    known = [(int(row["generation"]), float(row[column])) for row in rows if row.get(column)]
    finite = [(generation, value) for generation, value in known if math.isfinite(value)]
    return [generation for generation, _ in finite], [value for _, value in finite]


def _draw(axes: Axes, points: Points, label: str, colour: str, style: str = "-") -> None:
    if points[0]:
        marker = "." if len(points[0]) <= MARKED else ""
        axes.plot(*points, style, marker=marker, color=colour, label=label, linewidth=1.5)
