"""The reader of CSV tables in run folders, ``metrics.csv`` aside: candidates, studies, measurements."""

import csv
from collections.abc import Sequence
from pathlib import Path

Rows = Sequence[dict[str, str]]


def read_rows(path: Path) -> Rows:
    """The rows of a CSV file with a head; none of a file that is not there. Lines with other than its cells are left out."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        try:
            return [row for row in csv.DictReader(file) if None not in row and None not in row.values()]
        except csv.Error:
            return []
