"""The plot of a run: fitness and the headline of its evaluations against generation, from its ``metrics.csv``."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import refuse_link
from neuro_cli.core.metric import FITNESS, FRACTION, Metric
from neuro_cli.run_folder.metrics import read_metrics
from neuro_cli.run_folder.palette import BLUE, GREEN, ORANGE

log = logging.getLogger(__name__)

MARKED = 60  # with no more points than this, each is marked

Points = tuple[np.ndarray, np.ndarray]


def title_of(config: Mapping[str, Any]) -> str:
    """Title of the plot of a run: its network, task, algorithm and seed, by the classes of its config."""
    classes = {
        group: str((config.get(group) or {}).get("_target_", "")).rpartition(".")[2] for group in ("model", "task", "algo")
    }
    return "{model} on {task}, {algo}".format(**classes) + f", seed {config.get('seed')}"


# a matplotlibrc in the current folder may ask for LaTeX, which reads and runs what the file says
@matplotlib.rc_context(matplotlib.rcParamsDefault)
def plot_run(metrics_csv: Path, png: Path, headline: Metric, title: str = "") -> None:
    """Draw the file ``png``; without a row in ``metrics_csv`` nothing is drawn, and the log says so.

    Raises UserError when the file cannot be written.
    """
    metrics = read_metrics(metrics_csv)
    if not len(metrics):
        log.warning("%s has no rows: nothing to plot", metrics_csv)
        return
    figure = Figure(figsize=(8, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize="medium", parse_math=False)
    axes = figure.add_subplot(xlabel="generation", ylabel="fitness")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    _draw(axes, metrics.points("fitness_best"), "best fitness", ORANGE)
    _draw(axes, metrics.points("fitness_mean"), "mean fitness", BLUE)
    tested = metrics.points(headline.name)
    beside = axes if headline.unit == FITNESS or not len(tested[0]) else _other_axis(axes, headline)
    if len(tested[0]):
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


def _draw(axes: Axes, points: Points, label: str, colour: str, style: str = "-") -> None:
    if len(points[0]):
        marker = "." if len(points[0]) <= MARKED else ""
        axes.plot(*points, style, marker=marker, color=colour, label=label, linewidth=1.5)
