"""Tables of measurements (``neuro scale``, ``neuro bench``) as metrics, for any logger.

The table itself is a CSV file in the run folder, which is what ``logger=csv`` means there; other loggers get its numbers.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import only_warned
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.several import beside_csv

LEFT_OUT = {"machine", "round", "repeat"}  # the config has the first; the others count up as steps do
# whole numbers that say what was measured, not how much came out
LABELS = {
    "ranks", "population", "members", "iterations", "seed", "batch_size", "parameters", "examples", "threads", "normals",
    "episodes", "rank",
}  # fmt: skip

Point = tuple[int, str, float]


def log_points(logger: Logger, run: Path, config: Mapping[str, Any], points: Iterable[Point]) -> None:
    """Log ``points``, (step, metric, value) each, to loggers that have not started: a row per step, ascending.

    A logger that fails is a warning, for the table is written.
    """
    rows: defaultdict[int, Row] = defaultdict(dict)
    for step, name, value in points:
        rows[step][name] = value
    for each in beside_csv(logger):
        with only_warned(f"figures for {type(each.logger).__name__}"):
            each.start(run, config, None)
            for step in sorted(rows):
                each.log({"generation": step, **rows[step]})
            each.finish({})


def points_of(rows: Sequence[Mapping[str, str]]) -> list[Point]:
    """Metrics of a table: texts and ``LABELS`` name a row's numbers (``iid_forward/seconds``); step n is the n-th of a name."""
    columns = [name for name in (rows[0] if rows else {}) if name not in LEFT_OUT]
    numbers = [name for name in columns if name not in LABELS and all(_number(row[name]) is not None for row in rows)]
    seen: Counter[str] = Counter()
    points = []
    for row in rows:
        label = [_word(row[name]) for name in columns if name not in numbers and row[name]]
        for column in numbers:
            value = _number(row[column])
            if value is not None and math.isfinite(value):
                name = "/".join([*label, column])
                points.append((seen[name], name, value))
                seen[name] += 1
    return points


def _number(cell: str) -> float | None:
    """The number in a cell, NaN for an empty one, None for a text."""
    try:
        return float(cell or "nan")
    except ValueError:
        return None


def _word(cell: str) -> str:
    return re.sub(r"[^\w.%+-]+", "_", cell)
