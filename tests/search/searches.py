"""What a search left in its folder."""

import csv
from pathlib import Path


def rows(run: Path, name: str = "candidates.csv") -> list[dict[str, str]]:
    with (run / name).open(newline="") as file:
        return list(csv.DictReader(file))
