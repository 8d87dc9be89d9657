"""Helpers of the benchmarks: work in turn, medians with their spread, tables and CSV files."""

import csv
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.processor import cores, processor
from neuro_cli.core.messages import tables
from neuro_cli.run_folder.summary import versions


def in_turn(work: Mapping[str, Callable[[int], Any]], repeats: int, rest: float = 0.0) -> dict[str, list[float]]:
    """Return the seconds of every piece of work, one of each in turn, ``repeats`` times after one round that is not counted.

    In turn, so that a drift of the machine affects all alike. Work gets the number of the round. ``rest``: seconds before each
    piece, in which the core is kept busy, for a core that slept starts slowly.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(repeats + 1):
        for name, function in work.items():
            begin = time.perf_counter() + rest
            while time.perf_counter() < begin:
                pass
            start = time.perf_counter()
            function(number)
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Format median, minimum and maximum for a table, ``2.10 (2.02 to 2.31)``."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def ratios(seconds: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Return the ratios of the pairs of a round, for a table."""
    return [a / b for a, b in zip(seconds, reference, strict=True)]


def machine(threads: int | None, *more: str) -> str:
    """Describe processor, threads, ``more`` and library versions. ``threads`` None: the measured commands have their own."""
    used = [] if threads is None else [f"{threads} threads"]
    libraries = [f"{name} {version}" for name, version in versions(None).items() if version]
    return ", ".join([processor(), cores(), *used, *more, *libraries])


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    rows = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Console:
    """Print a table, and return its console for lines under it."""
    console = tables.wide_console()
    console.print(title)
    return tables.print_table([escape(name) for name in columns], rows, console=console)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], threads: int | None, path: Path) -> None:
    """Print the table, the machine, and the path of the figures."""
    print_table(title, columns, rows).print(machine(threads))
    print(f"neuro: results in {path}")


def write(path: Path, rows: Sequence[Mapping[str, Any]], threads: int | None) -> None:
    """Write ``rows`` as CSV, the machine and the versions in every row."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "machine"])
        writer.writeheader()
        writer.writerows({**row, "machine": machine(threads)} for row in rows)


def finished_rows(key: str, path: Path, fields: Sequence[str], identity: Sequence[str]) -> dict[tuple[str, ...], dict[str, str]]:
    """Read the rows that earlier commands added to ``path``, by their cells of ``identity``; empty without the file.

    ``key``: that of the file in the config. Raises UserError for a file with other columns.
    """
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if list(reader.fieldnames or ()) != list(fields):
            raise UserError(f"{key}={path}: its columns are others; name another file")
        return {tuple(row[name] for name in identity): row for row in reader if row["machine"]}  # a torn last line has none


def append_row(path: Path, row: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Add a row to the CSV file ``path`` at once, so that a stopped command can continue after it."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields)
        if new:
            writer.writeheader()
        writer.writerow(row)
