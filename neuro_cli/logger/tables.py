"""Tables of measurements (``neuro scale``, ``neuro bench``) as metrics, for any logger.

The table is a CSV file in the run folder (``logger=csv``); other loggers get its numbers.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import only_warned
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.several import without_csv

LEFT_OUT = {"machine", "round", "repeat"}  # columns without news: the config has the machine, steps count rounds and repeats
# integers that name a measurement and are no result of it
LABELS = {
    "ranks", "population", "members", "iterations", "seed", "batch_size", "parameters", "examples", "threads", "normals",
    "episodes", "rank",
}  # fmt: skip

Point = tuple[int, str, float]


def log_points(logger: Logger, run: Path, config: Mapping[str, Any], points: Iterable[Point]) -> None:
    """Log ``points``, (step, metric, value) each, to loggers that have not started: a row per step, ascending.

    The failure of a logger is a warning: the table is on file.
    """
    rows: defaultdict[int, Row] = defaultdict(dict)
    for step, name, value in points:
        rows[step][name] = value
    for each in without_csv(logger):
        with only_warned(f"figures for {type(each.logger).__name__}"):
            each.start(run, config, None)
            for step in sorted(rows):
                each.log({"generation": step, **rows[step]})
            each.finish({})


def points_of(rows: Sequence[Mapping[str, str]]) -> list[Point]:
    """Return the points of a table: texts and ``LABELS`` name a row's numbers (``iid_forward/seconds``); steps count its rows."""
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
    """Return the number in a cell, NaN for an empty one, None for a text."""
    try:
        return float(cell or "nan")
    except ValueError:
        return None


def _word(cell: str) -> str:
    return re.sub(r"[^\w.%+-]+", "_", cell)
