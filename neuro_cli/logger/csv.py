"""``metrics.csv``: one row per generation, written before the next generation begins. Every run has it."""

import csv
import logging
import numbers
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import open_appending, refuse_link, write_atomically
from neuro_cli.logger.base import Logger
from neuro_cli.logger.columns import LATER_COLUMNS, METRIC_COLUMNS, RANK_COLUMNS, Row, columns_of

log = logging.getLogger(__name__)


class CsvLogger(Logger):
    """Writer of ``metrics.csv`` with the columns of its first row. Floats are read back exactly; None is an empty cell."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._file: TextIO | None = None

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        self.path = run / "metrics.csv"
        refuse_link(self.path)
        try:
            if self.path.exists():
                if resumed_at is None:
                    raise UserError(f"{self.path}: exists already; continue with: neuro resume {run}, or use a new folder")
                self._columns = _cut(self.path, resumed_at)
            elif resumed_at:
                log.warning("%s is missing: rows of generations up to %d are lost", self.path, resumed_at)
            self._file = os.fdopen(open_appending(self.path), "a", newline="", encoding="utf-8")
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}") from error

    def log(self, row: Row) -> None:
        """Append a row. Raises ValueError for a column that the file lacks, UserError when it cannot be written.

        Files that began on one rank or with an earlier version may lack efficiencies and ``LATER_COLUMNS``.
        """
        if not self._columns:
            self._columns = columns_of(row, self.evaluated)
            self._write(self._columns)
        unknown = [name for name in row if name not in (*self._columns, *RANK_COLUMNS, *LATER_COLUMNS)]
        if unknown:
            raise ValueError(f"{self.path}: no column {', '.join(unknown)}; columns are set by the first row")
        self._write([_text(row.get(name)) for name in self._columns])

    def finish(self, summary: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, cells: list[str]) -> None:
        assert self._file is not None, "log before start"
        try:
            csv.writer(self._file, lineterminator="\n").writerow(cells)
            self._file.flush()
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}") from error


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))  # the shortest text that reads back as the same bits
    raise TypeError(f"a metric is a number or None, not {value!r}")


def _cut(path: Path, generation: int) -> list[str]:
    """Keep the rows up to ``generation``, one each and ascending; return the columns ([] when the header is torn).

    Rows of one command ascend, so the file is cut once, which no kill can leave half done. Rows of two commands are sorted into
    a new file. Raises UserError for another file.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    if not lines or not lines[0].endswith(b"\n"):
        os.truncate(path, 0)
        return []
    columns = _cells(lines[0])
    if columns[0] != METRIC_COLUMNS[0] or not set(METRIC_COLUMNS) <= set(columns):
        raise UserError(f"{path}: line 1 is not the header of neuro's metrics; move the file away")
    numbers = _rows(lines, columns, generation)
    kept = [lines[0], *(lines[number] for _, number in sorted(numbers.items()))]
    if kept == lines[: len(kept)]:
        os.truncate(path, sum(map(len, kept)))
    else:
        write_atomically(path, b"".join(kept))
        log.warning("%s: rows were doubled, damaged or out of order: one row for each generation is left, in order", path)
    dropped = len(lines) - len(kept)
    if dropped:
        log.info("%s: %d rows are removed; generations after %d run again", path, dropped, generation)
    missing = set(range(1, generation + 1)) - numbers.keys()
    if missing:
        first = last = min(missing)
        while last + 1 in missing:
            last += 1
        more = f" and {len(missing) - (last - first + 1)} more" if len(missing) > last - first + 1 else ""
        log.warning("%s: rows of generations %d to %d%s are missing", path, first, last, more)
    return columns


def _rows(lines: list[bytes], columns: list[str], generation: int) -> dict[int, int]:
    """Return the first intact line of every generation up to ``generation``."""
    first_lines: dict[int, int] = {}
    for number, line in enumerate(lines[1:], 1):
        cells = _cells(line)
        intact = line.endswith(b"\n") and len(cells) == len(columns) and cells[0].isdecimal() and all(map(_is_number, cells))
        if intact and 0 < int(cells[0]) <= generation:
            first_lines.setdefault(int(cells[0]), number)
    return first_lines


def _cells(line: bytes) -> list[str]:
    return next(csv.reader([line.decode("utf-8", "replace").replace("\0", "")]), [""])


def _is_number(cell: str) -> bool:
    """Return whether a cell is as :func:`_text` writes it; any other is damage."""
    try:
        return cell == "" or float(cell) is not None
    except ValueError:
        return False
