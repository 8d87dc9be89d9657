"""``neuro bench growth``: seconds and memory of a generation against parameters, population and ranks.

Each point is a world of its own, in which the other two numbers stay as the section says. The network is an MLP of two
hidden layers; the exponent of a column is the slope between two points on doubly logarithmic axes: 1 is a straight line.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from neuro_cli.bench.config import BenchConfig, integers
from neuro_cli.bench.table import show, write
from neuro_cli.bench.world import measured_in_world
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import only_warned
from neuro_cli.run_folder.plot import BLUE, VERMILION, Line, Panel, draw
from neuro_cli.runner.config import bounded, key

WORKER = "neuro_cli.bench.workers.growth"
AXES = ("parameters", "population", "ranks")
SAMPLERS = ("antithetic", "low_rank")
COLOURS = dict(zip(SAMPLERS, (BLUE, VERMILION), strict=True))

Row = dict[str, Any]


def _samplers(key: str, values: Any) -> list[str]:
    return [one_of(key, value, SAMPLERS) for value in (values if isinstance(values, list) else [values])]


@dataclass(frozen=True, kw_only=True)
class Point:
    """Setting of a measurement. ``parameters``: as many as the hidden width that comes nearest has."""

    sampler: str
    parameters: int
    population: int
    ranks: int = 1

    def at(self, axis: str, value: int) -> "Point":
        """Return the point of growth with another value on an axis."""
        changes: dict[str, Any] = {axis: value}
        return replace(self, **changes)


@dataclass(frozen=True)
class Growth:
    samplers: list[str] = key(_samplers)
    parameters: list[int] = key(integers(1000))
    population: list[int] = key(integers(2))
    ranks: list[int] = key(integers())
    middle_parameters: int = key(bounded(1000))
    middle_population: int = key(bounded(2))
    inputs: int = key(bounded(1))
    examples: int = key(bounded(1))
    dense_numbers: int = key(bounded(1))

    def points(self) -> Iterator[tuple[str, Point]]:
        """Return the axis and setting of every measurement; dense noise ends at ``dense_numbers`` numbers a generation."""
        for sampler in self.samplers:
            middle = Point(sampler=sampler, parameters=self.middle_parameters, population=self.middle_population)
            for axis in AXES:
                for value in getattr(self, axis):
                    point = middle.at(axis, value)
                    if sampler == "low_rank" or point.parameters * point.population <= self.dense_numbers:
                        yield axis, point

    def width(self, parameters: int) -> int:
        """Return the width w of the hidden layers: w * w + w * (inputs + outputs + 2) comes nearest to ``parameters``."""
        linear = self.inputs + OUTPUTS + 2
        return max(1, round((math.sqrt(linear**2 + 4 * parameters) - linear) / 2))


OUTPUTS = 10


def bench_growth(config: BenchConfig, run: Path) -> None:
    """Measure, print a table, write ``growth.csv`` and a figure. Raises UserError."""
    own = config.own(Growth, "growth")
    rows = [measured(own, config, axis, point, run / "worlds") for axis, point in own.points()]
    write(run / "growth.csv", rows, config.threads)
    with only_warned("plot"):
        draw(list(panels(rows)), run / "growth", columns=3, title=f"a generation with {own.examples} examples a member")
    show("growth of a generation", HEAD, [*table(rows)], config.threads, run / "growth.csv")


def measured(own: Growth, config: BenchConfig, axis: str, point: Point, folder: Path) -> Row:
    """Return the row of a point, measured in a world of its own. Raises RuntimeError when the world fails."""
    print(f"growth: {point}", flush=True)
    plan = {
        "fabric": config.plain["fabric"],
        "sampler": point.sampler,
        "population": point.population,
        "sizes": [own.inputs, own.width(point.parameters), own.width(point.parameters), OUTPUTS],
        "examples": own.examples,
        "repeats": config.repeats,
        "threads": config.threads,
        "seed": config.seed,
    }
    name = f"{axis}_{point.sampler}_{getattr(point, axis)}"
    found = measured_in_world(WORKER, plan, point.ranks, folder / name)
    seconds = found["seconds"]
    return {
        "axis": axis,
        "sampler": point.sampler,
        "parameters": found["parameters"],
        "population": point.population,
        "ranks": point.ranks,
        "seconds": statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
        "memory_bytes": found["memory_bytes"],
    }


HEAD = ("axis", "sampler", "parameters", "population", "ranks", "seconds", "exponent", "MB of a rank", "exponent")


def table(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Return the cells of each row, with the exponents since the point before."""
    for before, row in pairwise([rows[0], *rows]):
        same = before is not row and (before["axis"], before["sampler"]) == (row["axis"], row["sampler"])
        yield (
            row["axis"],
            row["sampler"],
            f"{row['parameters']:,}",
            f"{row['population']:,}",
            str(row["ranks"]),
            f"{row['seconds']:.4g} ({row['least']:.4g} to {row['most']:.4g})",
            exponent(before, row, "seconds") if same else "",
            f"{row['memory_bytes'] / 1e6:.0f}",
            exponent(before, row, "memory_bytes") if same else "",
        )


def exponent(before: Row, row: Row, column: str) -> str:
    """Return the slope of ``column`` along the rows' axis on doubly logarithmic axes."""
    return f"{math.log(row[column] / before[column]) / math.log(row[row['axis']] / before[row['axis']]):.2f}"


def panels(rows: Sequence[Row]) -> Iterator[Panel]:
    """Return the panels of growth: seconds, then memory, a column for each axis."""
    for column, label, unit in (("seconds", "seconds of a generation", 1.0), ("memory_bytes", "MB of a rank above imports", 1e6)):
        for axis in AXES:
            lines = []
            for sampler, colour in COLOURS.items():
                mine = [row for row in rows if (row["axis"], row["sampler"]) == (axis, sampler)]
                low, high = ([row[end] for row in mine] if column == "seconds" else () for end in ("least", "most"))
                values = [row[column] / unit for row in mine]
                lines.append(Line([row[axis] for row in mine], values, sampler, colour, marker=".", low=low, high=high))
            yield Panel(lines, {"xlabel": axis, "ylabel": label, "xscale": "log", "yscale": "log"}, height=3.6)
