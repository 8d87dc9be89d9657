"""Figure and table of architecture searches, from ``candidates.csv``."""

import math
from collections.abc import Sequence

import numpy as np

from neuro_cli.core.metric import ACCURACY
from neuro_cli.report.figure import Picture, amount, drawn
from neuro_cli.report.runs import Group, ReportedRun
from neuro_cli.run_folder.palette import CYCLE
from neuro_cli.run_folder.plot import Line, Panel
from neuro_cli.run_folder.rows import Rows, read_rows

FILE = "candidates.csv"
SCORE = "validation_accuracy"
BEST = 10  # candidates in the table
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
    lines, ends = [], []
    for place, group in enumerate(groups):
        for rows in filter(None, map(trained, group.runs)):
            numbers, scores = [int(row["candidate"]) for row in rows], [float(row[SCORE]) for row in rows]
            colour, label = CYCLE[place % len(CYCLE)], group.label if len(groups) > 1 else ""
            lines.append(Line(numbers, scores, "", colour, "", "."))
            lines.append(Line(numbers, np.maximum.accumulate(scores).tolist(), label, colour, steps=True))
            ends.append(f"{group.label} {amount(max(scores))}")
    if not lines:
        return None
    panel = Panel(lines, {"xlabel": "candidate", "ylabel": "validation accuracy"}, height=3.2)
    described = f"best validation accuracy so far; last: {'; '.join(ends)}"
    return drawn("candidates of a search", panel, described, "Dots: candidates; line: the best so far.")


def best_of(runs: Sequence[ReportedRun]) -> Rows:
    """Return the candidates with the best validation accuracy, each with its ``run``."""
    rows = [{"run": run.name, **{name: row.get(name) or "" for name in COLUMNS}} for run in runs for row in trained(run)]
    return sorted(rows, key=lambda row: -float(row[SCORE]))[:BEST]
