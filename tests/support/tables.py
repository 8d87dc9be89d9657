"""What a run or a measurement wrote: rows of a CSV file, a run's summary."""

import csv
import json
from pathlib import Path
from typing import Any


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def summary_of(run: Path | str) -> Any:
    return json.loads((Path(run) / "summary.json").read_text())


def sha_of(run: Path | str) -> str:
    """Return the digest of the trained parameters."""
    return str(summary_of(run)["parameters_sha256"])
