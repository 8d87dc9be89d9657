"""Reader of ``metrics.csv``, also of one that is being written or has damaged lines, and of a run folder's other CSV tables."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Rows = Sequence[dict[str, str]]
MOST = 2**32  # more than the generations of any run


@dataclass(frozen=True)
class Metrics:
    """Columns by name, (G,) float64 in the order of the file, NaN where a cell has no finite number.

    ``damaged``: lines left out because they are no row of this file; the torn last line of a running run does not count.
    """

    columns: dict[str, np.ndarray] = field(default_factory=dict)
    damaged: int = 0
    problem: str = ""  # describes the first damaged line

    def __len__(self) -> int:
        return len(self["generation"])

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a column; NaN in every row where the file lacks it."""
        if name in self.columns:
            return self.columns[name]
        return np.full(len(self.columns["generation"]) if self.columns else 0, np.nan)

    @property
    def last(self) -> int:
        """Last generation that has a row; 0 without one."""
        return int(self["generation"][-1]) if len(self) else 0

    def points(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the generations and values of a column where it has a finite value."""
        finite = np.isfinite(self[name])
        return self["generation"][finite], self[name][finite]

    def measured(self) -> list[str]:
        """Return the columns that have a number in some row, in the order of the file, without the generation."""
        return [name for name, values in self.columns.items() if name != "generation" and np.isfinite(values).any()]


def read_metrics(path: Path) -> Metrics:
    """Return the rows of ``path`` with ascending generations; none without the file or its header."""
    head, *lines = _lines(path) or [""]
    names = next(csv.reader([head]), [])
    if "generation" not in names or len(set(names)) < len(names):
        return Metrics(damaged=len(lines) + bool(head), problem="line 1 is no header" if head else "")
    rows, damaged, last, problem = [], 0, -1.0, ""
    for number, values in enumerate(_numbers(lines, len(names)), 2):
        generation = values[names.index("generation")] if values else np.nan
        if values is not None and generation > last and generation.is_integer() and generation < MOST:
            rows.append(values)
            last = generation
            continue
        damaged += 1
        what = "is no row" if not generation < MOST else f"has generation {generation:g} after {last:g}"
        problem = problem or f"line {number} {what}"
    if damaged > 1:
        problem += f", and {damaged - 1} more lines"
    table = np.array(rows, np.float64).reshape(-1, len(names))
    table[~np.isfinite(table)] = np.nan
    return Metrics(dict(zip(names, table.T, strict=True)), damaged, problem)


def _lines(path: Path) -> list[str]:
    """Return the complete lines: the last one may be torn."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    return content[: content.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines()


def _numbers(lines: list[str], width: int) -> Iterator[list[float] | None]:
    """Yield the cells of every line; None for a line that is no row."""
    for line in lines:
        cells = line.split(",")
        try:
            yield [float(cell) if cell else np.nan for cell in cells] if len(cells) == width else None
        except ValueError:
            yield None


def read_rows(path: Path) -> Rows:
    """Return the rows of a CSV file with a header; none without the file. Skips lines with more or fewer cells."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        try:
            return [row for row in csv.DictReader(file) if None not in row and None not in row.values()]
        except csv.Error:
            return []
