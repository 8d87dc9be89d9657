"""Rows of a CSV file that a run or a measurement wrote."""

import csv
from pathlib import Path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
