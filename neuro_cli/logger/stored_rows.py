"""Rows of ``metrics.csv`` as they were logged, for trackers that lack some of a resumed run."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from neuro_cli.logger.columns import Row


@dataclass(frozen=True)
class StoredRows:
    """Rows of the run folder ``run`` up to generation ``last``, by default all. The file may grow while they are read."""

    run: Path
    last: float = math.inf

    def after(self, generation: int) -> Iterator[Row]:
        """Yield the rows of later generations, ascending; none without the file."""
        for row in MetricsTail(self.run / "metrics.csv").new():
            if generation < (row["generation"] or 0) <= self.last:
                yield row


class MetricsTail:
    """Rows that another process appends to a file of metrics, each once; torn lines wait for their end."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._head = path, 0, list[str]()

    def new(self) -> Iterator[Row]:
        """Yield the rows that were added since the last call; none without the file."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return
        lines = content[: content.rfind(b"\n") + 1]
        self._offset += len(lines)
        for line in csv.reader(lines.decode().splitlines()):
            if self._head:
                yield dict(zip(self._head, map(_number, line), strict=True))
            else:
                self._head = line


def _number(cell: str) -> int | float | None:
    if not cell:
        return None
    return int(cell) if cell.lstrip("-").isdecimal() else float(cell)
