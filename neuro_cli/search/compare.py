"""`neuro search plot FILE FOLDER...`: searches of several strategies and seeds in one figure and one table."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from neuro_cli.core.errors import UserError, printable
from neuro_cli.core.metric import ACCURACY
from neuro_cli.run_folder.config import is_search, saved_config
from neuro_cli.run_folder.rows import read_rows
from neuro_cli.search.plot import SearchCurve, plot_comparison
from neuro_cli.search.record import CANDIDATES

COLUMNS = ("task", "strategy", "runs", "candidates", "validation", "test accuracy", "of each run", "medians of first generations")
WIDTH = 160  # characters of a line where no terminal gives a width


def compare(png: Path, folders: Sequence[Path]) -> list[SearchCurve]:
    """Draw ``png`` and print a table over the finished searches in or below ``folders``. Raises UserError."""
    runs = [_read(run) for folder in folders for run in _searches(folder)]
    plot_comparison(runs, png)
    _show(runs)
    return runs


def _searches(folder: Path) -> list[Path]:
    """Return the folders of searches in or below ``folder``. Raises UserError where there are none."""
    runs = sorted(path.parent.parent for path in folder.glob("**/.hydra/config.yaml"))
    searches = [run for run in runs if is_search(run)]
    if not searches:
        raise UserError(f"{folder}: no search of neuro in it or below")
    return searches


def _read(run: Path) -> SearchCurve:
    """Read a finished search. Raises UserError for one that has not ended."""
    config = saved_config(run)
    try:
        summary: dict[str, Any] = json.loads((run / "summary.json").read_bytes())
        rows = read_rows(run / CANDIDATES)
        accuracies = [float(row["validation_accuracy"]) for row in rows if row["validation_accuracy"]]
    except (OSError, ValueError) as error:
        raise UserError(f"{run}: this search has not ended: {error}") from error
    if not accuracies or summary.get(ACCURACY.name) is None:
        raise UserError(f"{run}: this search has trained no candidate")
    return SearchCurve(
        strategy=_name(config["strategy"], -2),
        task=_name(config["task"], -2),
        seed=config["seed"],
        accuracies=tuple(accuracies),
        test_accuracy=summary[ACCURACY.name],
        first_median=summary["first_generation"][f"{ACCURACY.name}_median"],
    )


def _name(node: dict[str, Any], place: int) -> str:
    """Return the name of a group's option, which is that of its module."""
    return str(node["_target_"]).split(".")[place]


def _show(runs: Sequence[SearchCurve]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in COLUMNS:
        table.add_column(name)
    for task, strategy in dict.fromkeys((run.task, run.strategy) for run in runs):
        here = [run for run in runs if (run.task, run.strategy) == (task, strategy)]
        tests = [run.test_accuracy for run in here]
        numbers = (fmean(max(run.accuracies) for run in here), fmean(tests))
        each = " ".join(f"{test:.4f}" for test in tests)
        candidates = "-".join(str(count) for count in sorted({len(run.accuracies) for run in here}))
        first = " ".join(f"{run.first_median:.4f}" for run in here)
        names = (escape(printable(name)) for name in (task, strategy))
        table.add_row(*names, str(len(here)), candidates, *(f"{number:.4f}" for number in numbers), each, first)
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    console.print(table)
