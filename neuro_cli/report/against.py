"""Figure of a swept key: results of runs against its value, as mean and standard deviation over runs that differ in their seed.

neuro report SWEEP x=algo.sigma
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neuro_cli.core.errors import ConfigError, printable
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.core.metric import Metric
from neuro_cli.report.run_state import RunState
from neuro_cli.report.runs import SEED
from neuro_cli.report.table import differing, headlines, short_names
from neuro_cli.run_folder.config import config_of
from neuro_cli.run_folder.identity import flatten
from neuro_cli.run_folder.plot import CYCLE

WIDE = 10.0  # positive values that span so many times have a logarithmic axis


class Point(NamedTuple):
    """Results (R,) of the runs with one value ``x`` of the key."""

    x: str
    results: np.ndarray

    @property
    def mean(self) -> float:
        return float(self.results.mean())

    @property
    def deviation(self) -> float:
        """Standard deviation over the runs, 0 for one."""
        return float(self.results.std(ddof=1)) if len(self.results) > 1 else 0.0


def points_of(jobs: Sequence[RunState], key: str) -> tuple[Metric, dict[str, list[Point]]]:
    """Return the headline metric, and points by line: a line for each combination of the other keys in which jobs differ.

    Raises ConfigError where fewer than two values of ``key`` have a result.
    """
    metrics = headlines(jobs)
    ended = [job for job in jobs if job.path is not None and metrics and metrics[0].name in job.values]
    configs = [{**flatten(config_of(job.path)), **job.overrides} for job in ended if job.path is not None]
    keys = sorted({name for config in configs for name in config})
    values = [str(config[key]) for config in configs if key in config]
    if len(values) < len(configs) or len(set(values)) < 2:
        swept = [name for name in differing(jobs) if name != SEED]
        allowed = f"must be a key in which the runs with a result differ ({', '.join(swept) or 'they differ in none'})"
        raise ConfigError("x", key, allowed if key in keys else nearest(key, keys))
    others = [name for name in differing(ended) if name not in (key, SEED)]
    names, lines = short_names(others), dict[str, dict[str, list[float]]]()
    for job, value in zip(ended, values, strict=True):
        label = ", ".join(f"{names[name]}={job.overrides.get(name, '')}" for name in others)
        lines.setdefault(label, {}).setdefault(value, []).append(job.values[metrics[0].name])
    order = sorted(set(values), key=lambda value: (number_of(value) is None, number_of(value) or 0.0, value))
    return metrics[0], {
        label: [Point(x, np.array(by_value[x])) for x in order if x in by_value] for label, by_value in lines.items()
    }


def draw_against(jobs: Sequence[RunState], key: str, folder: Path) -> list[Path]:
    """Print the points and draw them into ``folder``, as SVG and PNG, whose paths are returned. Raises ConfigError."""
    from neuro_cli.run_folder.plot import Line, Panel, draw

    metric, lines = points_of(jobs, key)
    labels = list(dict.fromkeys(point.x for points in lines.values() for point in points))
    numbers = [number for label in labels if (number := number_of(label)) is not None]
    numeric = len(numbers) == len(labels)
    options: dict[str, object] = {"xlabel": key, "ylabel": metric.heading}
    if not numeric:
        options |= {"xticks": range(len(labels)), "xticklabels": labels}
    elif min(numbers) > 0 and max(numbers) >= WIDE * min(numbers):
        options["xscale"] = "log"
    shown = []
    for place, (label, points) in enumerate(lines.items()):
        x = [float(point.x) if numeric else float(labels.index(point.x)) for point in points]
        several = any(point.deviation for point in points)
        low, high = ([point.mean + side * point.deviation for point in points if several] for side in (-1, 1))
        colour, whiskers = CYCLE[place % len(CYCLE)], "" if numeric else "y"
        shown.append(Line(x, [point.mean for point in points], label, colour, marker="o", low=low, high=high, whiskers=whiskers))
        for point in points:
            around = f" +- {metric.text(point.deviation)}" if len(point.results) > 1 else ""
            chosen = f"{label + ', ' if label else ''}{key}={point.x}"
            print(printable(f"{chosen}: {metric.text(point.mean)}{around} ({len(point.results)} runs)"))
    path = folder / f"{short_names([key])[key]}"
    draw([Panel(shown, options)], path, title="mean and standard deviation over runs")
    return [path.with_suffix(suffix) for suffix in (".svg", ".png")]


def number_of(text: str) -> float | None:
    """Return the finite number that ``text`` is, None for another text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
