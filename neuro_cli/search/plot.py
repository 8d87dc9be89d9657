"""Plots of searches: the candidates of one, and the best so far of several strategies over seeds."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neuro_cli.core.errors import UserError
from neuro_cli.run_folder.palette import BLUE, GREEN, ORANGE
from neuro_cli.run_folder.rows import read_rows

log = logging.getLogger(__name__)

COLOURS = (BLUE, ORANGE, GREEN)


@dataclass(frozen=True)
class SearchCurve:
    """Search that has ended: the validation accuracies of its candidates in their order, and two test accuracies.

    ``test_accuracy``: of the best by validation; ``first_median``: of the first generation.
    """

    strategy: str
    task: str
    seed: int
    accuracies: tuple[float, ...]
    test_accuracy: float
    first_median: float


def plot_search(candidates_csv: Path, png: Path) -> None:
    """Draw every candidate of one search and the best so far; nothing where no candidate was trained."""
    rows = _trained(candidates_csv)
    if not rows:
        log.warning("%s has no candidate that was trained: nothing to plot", candidates_csv)
        return
    numbers, accuracies = [int(row["candidate"]) for row in rows], [float(row["validation_accuracy"]) for row in rows]
    figure = Figure(figsize=(8, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _frame(axes, "")
    shown = axes.scatter(numbers, accuracies, c=[int(row["layers"]) for row in rows], cmap="viridis", s=24, label="candidate")
    axes.plot(numbers, list(accumulate(accuracies, max)), color=ORANGE, drawstyle="steps-post", label="best so far")
    figure.colorbar(shown, ax=axes, label="layers of the module", ticks=MaxNLocator(integer=True))
    axes.legend(loc="lower right", frameon=False)
    _save(figure, png)


def plot_comparison(runs: Sequence[SearchCurve], png: Path) -> None:
    """Draw the best validation accuracy so far of each strategy, mean and range over runs, and their test accuracies."""
    tasks = list(dict.fromkeys(run.task for run in runs))
    strategies = list(dict.fromkeys(run.strategy for run in runs))
    figure = Figure(figsize=(5.2 * len(tasks), 4.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        _frame(axes, task)
        for place, strategy in enumerate(strategies):
            here = [run for run in runs if (run.task, run.strategy) == (task, strategy)]
            if here:
                _band(axes, here, strategy, COLOURS[place % len(COLOURS)])
        axes.legend(loc="lower right", frameon=False)
    _save(figure, png)


def _band(axes: Axes, runs: Sequence[SearchCurve], strategy: str, colour: str) -> None:
    curves = [list(accumulate(run.accuracies, max)) for run in runs]
    length = min(map(len, curves))
    columns = [[curve[place] for curve in curves] for place in range(length)]
    numbers = range(1, length + 1)
    tests = [run.test_accuracy for run in runs]
    label = f"{strategy}: test accuracy of the best {fmean(tests):.3f} ({len(runs)} runs)"
    axes.plot(numbers, [fmean(column) for column in columns], color=colour, label=label, drawstyle="steps-post")
    axes.fill_between(numbers, [min(c) for c in columns], [max(c) for c in columns], color=colour, alpha=0.2, step="post")
    axes.plot([length] * len(tests), tests, "x", color=colour, markersize=5)


def _frame(axes: Axes, title: str) -> None:
    axes.set(title=title, xlabel="candidate", ylabel="validation accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)


def _trained(candidates_csv: Path) -> list[dict[str, str]]:
    return [row for row in read_rows(candidates_csv) if row["validation_accuracy"]]


def _save(figure: Figure, png: Path) -> None:
    try:
        figure.savefig(png)
    except OSError as error:
        raise UserError(f"{png}: cannot be written: {error.strerror}") from error
