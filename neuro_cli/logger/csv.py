"""``metrics.csv``: one row a generation, on file before the next begins. Every run has it."""

import csv
import logging
import numbers
import os
from pathlib import Path
from typing import Any, TextIO

from neuro_cli.core.errors import UserError
from neuro_cli.logger.base import METRIC_COLUMNS, Logger, Row

log = logging.getLogger(__name__)


class CsvLogger(Logger):
    """The columns of ``METRIC_COLUMNS``, then others of the first row. Floats come back exactly; None is empty."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._file: TextIO | None = None

    def start(self, run: Path, config: dict[str, Any], resumed_at: int | None) -> None:
        self.path = run / "metrics.csv"
        try:
            if self.path.exists():
                if resumed_at is None:
                    raise UserError(f"{self.path}: is there already; go on with: neuro resume {run}, or use a new folder")
                self._columns = _cut(self.path, resumed_at)
            elif resumed_at:
                log.warning("%s is missing: rows of generations up to %d are lost", self.path, resumed_at)
            self._file = self.path.open("a", newline="", encoding="utf-8")
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}") from error

    def log(self, row: Row) -> None:
        """Append a row. Raises ValueError for a column that the file has not, UserError when it cannot be written."""
        if not self._columns:
            self._columns = [*METRIC_COLUMNS, *(name for name in row if name not in METRIC_COLUMNS)]
            self._write(self._columns)
        unknown = [name for name in row if name not in self._columns]
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


def last_row(run: Path) -> int:
    """The generation of the last whole row of a run's ``metrics.csv``; 0 without one."""
    path = run / "metrics.csv"
    whole = [line for line in (path.read_bytes() if path.exists() else b"").splitlines(keepends=True) if line.endswith(b"\n")]
    first = whole[-1].split(b",")[0] if whole else b""
    return int(first) if first.isdigit() else 0


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))  # the shortest text that reads back as the same bits
    raise TypeError(f"a metric is a number or None, not {value!r}")


def _cut(path: Path, generation: int) -> list[str]:
    """Drop the rows after ``generation`` and a torn last line; return the columns ([] when the header is torn).

    Rows ascend, so one cut of the file does it, which no kill can leave half done. Raises UserError for another file.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    size = kept = last = 0
    columns: list[str] = []
    for number, line in enumerate(lines):
        whole = line.endswith(b"\n")
        if number == 0:
            if not whole:
                break
            columns = next(csv.reader([line.decode("utf-8", "replace")]))
            if tuple(columns[: len(METRIC_COLUMNS)]) != METRIC_COLUMNS:
                raise UserError(f"{path}: line 1 is not the header of neuro's metrics; move the file away")
        else:
            first = line.split(b",")[0]
            if not whole or not first.isdigit() or int(first) > generation:
                break
            last, kept = int(first), kept + 1
        size += len(line)
    os.truncate(path, size)
    dropped = max(0, len(lines) - 1 - kept)
    if dropped:
        log.info("%s: %d rows after generation %d are dropped, they will be made again", path, dropped, generation)
    if last < generation:
        log.warning("%s: rows of generations %d to %d are missing", path, last + 1, generation)
    return columns
