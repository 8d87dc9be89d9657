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
        if generation >= self.last:
            return
        try:
            file = (self.run / "metrics.csv").open(newline="", encoding="utf-8")
        except FileNotFoundError:  # the start of the logger warned already
            return
        with file:
            for cells in csv.DictReader(file):
                if None in cells.values():  # a row that is being written
                    return
                number = int(cells["generation"])
                if number > self.last:
                    return
                if number > generation:
                    yield {name: _number(cell) for name, cell in cells.items()}


def _number(cell: str) -> int | float | None:
    if not cell:
        return None
    return int(cell) if cell.lstrip("-").isdecimal() else float(cell)
