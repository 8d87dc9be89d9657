"""The reader of ``metrics.csv``: columns of numbers, also while it is written and where lines of it are damaged."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

MOST = 2**32  # no run has more generations


@dataclass(frozen=True)
class Metrics:
    """``columns``: by name, (G,) float64 in the order of the file, NaN where there is no finite number.

    ``damaged``: how many lines are no row of this file; they are left out. A torn last line of a run at work is none.
    """

    columns: dict[str, np.ndarray] = field(default_factory=dict)
    damaged: int = 0
    problem: str = ""  # the first of these lines, in words

    def __len__(self) -> int:
        return len(self["generation"])

    def __getitem__(self, name: str) -> np.ndarray:
        """A column; of one that is not there, as many NaN as there are rows."""
        if name in self.columns:
            return self.columns[name]
        return np.full(len(self.columns["generation"]) if self.columns else 0, np.nan)

    @property
    def last(self) -> int:
        """The last generation that has a row; 0 without one."""
        return int(self["generation"][-1]) if len(self) else 0

    def points(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Generations and values of a column where it has a finite value."""
        known = np.isfinite(self[name])
        return self["generation"][known], self[name][known]

    def measured(self) -> list[str]:
        """The columns that have a number anywhere, in the order of the file, without the generation."""
        return [name for name, values in self.columns.items() if name != "generation" and np.isfinite(values).any()]


def read_metrics(path: Path) -> Metrics:
    """The rows of ``path`` with ascending generations; none without the file or its header."""
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
    """Whole lines: the last one may be torn."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    return _whole(content).decode("utf-8", "replace").splitlines()


def _whole(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _numbers(lines: list[str], width: int) -> Iterator[list[float] | None]:
    """The cells of every line; None for a line that has others."""
    for line in lines:
        cells = line.split(",")
        try:
            yield [float(cell) if cell else np.nan for cell in cells] if len(cells) == width else None
        except ValueError:
            yield None


class MetricsTail:
    """The rows of a file of metrics that another process writes, each once, as text; a line counts when its end is there."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._head = path, 0, list[str]()

    def new(self) -> Iterator[dict[str, str]]:
        """Rows that came since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return
        whole = _whole(content)
        self._offset += len(whole)
        for line in csv.reader(whole.decode().splitlines()):
            if self._head:
                yield dict(zip(self._head, line, strict=True))
            else:
                self._head = line
