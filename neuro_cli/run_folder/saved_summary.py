"""Reader of ``summary.json``, which somebody else may have written. Imports no torch."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError

NUMBERS = ("generations", "wall_seconds", "candidates_per_second", "ranks")  # shown next to the metrics
LARGEST = 1e300


def read_summary(run: Path) -> dict[str, Any] | None:
    """Read the summary in the folder ``run``; None where none exists yet. Raises UserError."""
    path = run / "summary.json"
    try:
        summary = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a readable summary: {error}") from error
    if not isinstance(summary, dict):
        raise UserError(f"{path}: not a readable summary: no JSON object")
    refuse_other_than_numbers(run, summary, (*NUMBERS, "parameters"))
    return summary


def refuse_other_than_numbers(run: Path, summary: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise UserError where the summary has no number under one of ``keys``."""
    for key in keys:
        value = summary.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST):
            raise UserError(f"{run / 'summary.json'}: {key}={str(value)[:60]}: must be a number")
