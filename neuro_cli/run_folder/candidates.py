"""Candidates of a search, from ``candidates.csv``: those that were trained, and the one figure of them."""

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from neuro_cli.run_folder.metrics import Rows, read_rows
from neuro_cli.run_folder.plot import ORANGE, Line, Panel

FILE = "candidates.csv"
SCORE = "validation_accuracy"


def trained(run: Path) -> Rows:
    """Return the candidates of the folder ``run`` that have a score, in their order; none where it is no search."""
    rows = [row for row in read_rows(run / FILE) if row.get("candidate", "").isdigit()]
    return [row for row in rows if _is_number(row.get(SCORE))]


def panel_of_searches(searches: Sequence[tuple[str, str, Rows]], height: float = 4.8) -> Panel:
    """Return the panel of ``searches``, a label, a colour and rows each: every candidate, and the best so far.

    The marks of one search alone are coloured by the layers of their modules.
    """
    lines: list[Line] = []
    for label, colour, rows in searches:
        numbers, scores = [int(row["candidate"]) for row in rows], [float(row[SCORE]) for row in rows]
        alone = len(searches) == 1 and all(row.get("layers", "").isdigit() for row in rows)
        if alone:
            lines.append(Line(numbers, scores, "layers of the module", shades=[int(row["layers"]) for row in rows]))
        else:
            lines.append(Line(numbers, scores, "", colour, "", "."))
        best = list(accumulate(scores, max))
        lines.append(Line(numbers, best, "best so far" if alone else label, ORANGE if alone else colour, steps=True))
    return Panel(lines, {"xlabel": "candidate", "ylabel": "validation accuracy"}, height=height)


def _is_number(text: str | None) -> bool:
    try:
        return math.isfinite(float(text or "nan"))
    except ValueError:
        return False
