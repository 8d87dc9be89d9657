"""Numbers and pictures that the runs of an entry left: columns of CSV files, keys of JSON files, SVG and PNG files."""

import json
import math
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.reproduce.entry import EntryRow
from neuro_cli.reproduce.run import EntryRun, RunOutcome
from neuro_cli.run_folder.metrics import read_rows

SUFFIXES = (".svg", ".png")


@dataclass(frozen=True)
class Measured:
    """Median with its minimum and maximum. ``tried``: the most spent on a goal without reaching it, else None."""

    value: float
    least: float
    most: float
    tried: float | None = None


def measured(row: EntryRow, folders: Sequence[Path]) -> Measured:
    """Read the number of ``row`` from the first of ``folders`` that has its file. Raises UserError without one."""
    path = next((folder / row.file for folder in folders if (folder / row.file).is_file()), None)
    if path is None:
        raise UserError(f"{row.name}: the run left no {row.file}")
    if path.suffix == ".json":
        value = _number(_at(json.loads(path.read_bytes()), row.value), f"{row.name}: {path.name}: {row.value}")
        return Measured(value, value, value)
    chosen = [line for line in read_rows(path) if _fits(line, row.where)]
    if not chosen:
        raise UserError(f"{row.name}: {path.name} has no row with {_words(row.where)}")
    values = [_value(line, row, path) for line in chosen]
    # a median that is a measured value, since infinite ones (never reached) have no mean with finite ones
    middle = statistics.fmean(values) if row.reduce == "mean" else _median(values)
    if row.spread is None:
        spent = [_column(line, row.value, row, path) for line in chosen if row.never and _fits(line, row.never)]
        return Measured(middle, min(values), max(values), max(spent, default=None))
    least, most = ([_column(line, name, row, path) for line in chosen] for name in row.spread)
    return Measured(middle, min(least), max(most))


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if all(map(math.isfinite, values)) else statistics.median_high(values)


def _value(line: Mapping[str, str], row: EntryRow, path: Path) -> float:
    return math.inf if row.never and _fits(line, row.never) else _column(line, row.value, row, path)


def _column(line: Mapping[str, str], name: str, row: EntryRow, path: Path) -> float:
    return _number(line.get(name), f"{row.name}: {path.name}: {name}")


def _number(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UserError(f"{where}: no number there, but {value!r}") from None
    if math.isnan(number):
        raise UserError(f"{where}: not a number")
    return number


def _at(node: Any, key: str) -> Any:
    """Return the value under the dotted ``key``, where a number is a place in a list; None where there is none."""
    for part in key.split("."):
        if isinstance(node, list):
            node = node[int(part)] if part.isdecimal() and int(part) < len(node) else None
        else:
            node = node.get(part) if isinstance(node, dict) else None
    return node


def _fits(line: Mapping[str, str], where: Mapping[str, Any]) -> bool:
    return all(line.get(column) == str(value) for column, value in where.items())


def _words(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{column}={value}" for column, value in where.items())


def keep_pictures(
    figures: Mapping[str, Sequence[str]], cells: Mapping[str, EntryRun], records: Mapping[str, RunOutcome], folder: Path
) -> list[Path]:
    """Copy the pictures that ``figures`` names by run and pattern into ``folder``, without those of runs that did not finish."""
    for old in folder.glob(f"{folder.name}_*"):
        if old.suffix in SUFFIXES:
            old.unlink()  # an earlier start left it, and its run was repeated
    copied = []
    for name, patterns in figures.items():
        record = records.get(name)
        if record is None or not record.finished:
            continue
        for picture in _fitting(patterns, cells[name].folders(record)):
            place = folder / f"{folder.name}_{name}_{picture.name}"
            shutil.copyfile(picture, place)
            copied.append(place)
    return copied


def _fitting(patterns: Sequence[str], folders: Sequence[Path]) -> list[Path]:
    """Return the pictures whose names fit, in the order of the patterns."""
    paths = [path for pattern in patterns for place in folders for path in sorted(place.glob(pattern))]
    return [path for path in dict.fromkeys(paths) if path.suffix in SUFFIXES and path.is_file()]
