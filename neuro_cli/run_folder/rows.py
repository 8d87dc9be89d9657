"""Reader of CSV tables in run folders, except ``metrics.csv``: candidates, studies, measurements."""

import csv
from collections.abc import Sequence
from pathlib import Path

Rows = Sequence[dict[str, str]]


def read_rows(path: Path) -> Rows:
    """Return the rows of a CSV file with a header; none without the file. Skips lines with more or fewer cells."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        try:
            return [row for row in csv.DictReader(file) if None not in row and None not in row.values()]
        except csv.Error:
            return []
