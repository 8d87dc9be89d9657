"""Plots of searches: the candidates of one, and the best so far of several strategies over seeds."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import fmean

from neuro_cli.run_folder.palette import BLUE, GREEN, ORANGE
from neuro_cli.run_folder.plot import Line, Panel, draw
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
    marks = Line(numbers, accuracies, "layers of the module", shades=[int(row["layers"]) for row in rows])
    best = Line(numbers, list(accumulate(accuracies, max)), "best so far", ORANGE, steps=True)
    draw([_panel([marks, best], "")], png)


def plot_comparison(runs: Sequence[SearchCurve], png: Path) -> None:
    """Draw the best validation accuracy so far of each strategy, mean and range over runs, and their test accuracies."""
    tasks = list(dict.fromkeys(run.task for run in runs))
    strategies = list(dict.fromkeys(run.strategy for run in runs))
    panels = []
    for task in tasks:
        here = [[run for run in runs if (run.task, run.strategy) == (task, strategy)] for strategy in strategies]
        panels.append(_panel([line for n, some in enumerate(here) if some for line in _lines(some, COLOURS[n % 3])], task))
    draw(panels, png, columns=len(tasks))


def _lines(runs: Sequence[SearchCurve], colour: str) -> list[Line]:
    """The best so far of a strategy on a task, mean and range over its runs, and a cross for each test accuracy."""
    curves = [list(accumulate(run.accuracies, max)) for run in runs]
    columns = list(zip(*curves, strict=False))  # as far as the shortest search
    tests = [run.test_accuracy for run in runs]
    label = f"{runs[0].task}, {runs[0].strategy}: test accuracy of the best {fmean(tests):.3f} ({len(runs)} runs)"
    low, high = ([end(column) for column in columns] for end in (min, max))
    best = Line(range(1, len(columns) + 1), [fmean(c) for c in columns], label, colour, steps=True, low=low, high=high)
    return [best, Line([len(columns)] * len(tests), tests, "", colour, "", "x")]


def _panel(lines: Sequence[Line], title: str) -> Panel:
    return Panel(lines, {"title": title, "xlabel": "candidate", "ylabel": "validation accuracy"})


def _trained(candidates_csv: Path) -> list[dict[str, str]]:
    return [row for row in read_rows(candidates_csv) if row["validation_accuracy"]]
