"""Plot of a search: every candidate, and the best so far."""

import logging
from itertools import accumulate
from pathlib import Path

from neuro_cli.run_folder.palette import ORANGE
from neuro_cli.run_folder.plot import Line, Panel, draw
from neuro_cli.run_folder.rows import read_rows

log = logging.getLogger(__name__)


def plot_search(candidates_csv: Path, png: Path) -> None:
    """Draw every candidate of one search and the best so far; nothing where no candidate was trained."""
    rows = [row for row in read_rows(candidates_csv) if row["validation_accuracy"]]
    if not rows:
        log.warning("%s has no candidate that was trained: nothing to plot", candidates_csv)
        return
    numbers, accuracies = [int(row["candidate"]) for row in rows], [float(row["validation_accuracy"]) for row in rows]
    marks = Line(numbers, accuracies, "layers of the module", shades=[int(row["layers"]) for row in rows])
    best = Line(numbers, list(accumulate(accuracies, max)), "best so far", ORANGE, steps=True)
    draw([Panel([marks, best], {"xlabel": "candidate", "ylabel": "validation accuracy"})], png)
