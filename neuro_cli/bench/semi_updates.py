"""``neuro bench semi_updates``: accuracy over generations of chromosome updates, and of semi-updates, exact and as published.

The published semi-updates (Lenc et al. 2019) are an approximation: every rank shapes its own members' fitnesses, so what it
learns depends on the number of ranks. Chromosome updates are exact, and so are semi-updates with fitnesses shaped together.
"""

import copy
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.bench.checks import integers
from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.ensemble import WORKER
from neuro_cli.bench.table import show, write
from neuro_cli.bench.world import measured_in_world
from neuro_cli.core.errors import only_warned
from neuro_cli.core.metric import ACCURACY
from neuro_cli.run_folder.palette import BLUE, GREEN, ORANGE, PURPLE, VERMILION
from neuro_cli.run_folder.plot import Line, Panel, draw
from neuro_cli.runner.config import bounded, key
from neuro_cli.runner.options import make_network

EXACT, PUBLISHED = ("chromosome_updates", "semi_updates"), "semi_updates_local"
COLOURS = (BLUE, GREEN, VERMILION, ORANGE, PURPLE)
STYLES = ("-", "--", ":", "-.", (0, (1, 1)))

Row = dict[str, Any]


@dataclass(frozen=True)
class SemiUpdates:
    task: dict[str, Any] = key()
    model: dict[str, Any] = key()
    population: int = key(bounded(1))
    batch_size: int = key(bounded(1))
    generations: int = key(bounded(1))
    methods: dict[str, Any] = key()
    ranks: list[int] = key(integers())
    seeds: list[int] = key(integers())
    every: int = key(bounded(1))

    def run_config(self, config: BenchConfig, method: str, seed: int) -> dict[str, Any]:
        """Return the config of a training run by ``method``."""
        node = {name: getattr(self, name) for name in ("task", "model", "population", "batch_size", "generations")}
        node |= {"distribution": self.methods[method], "algo": config.plain["algo"], "seed": seed, "threads": config.threads or 1}
        node = copy.deepcopy(node)
        for schedule in (part for part in node["algo"].values() if isinstance(part, dict) and "generations" in part):
            schedule["generations"] = self.generations
        return {**config.plain, **node}


def bench_semi_updates(config: BenchConfig, run: Path) -> None:
    """Print the accuracies at the end; write ``semi_updates.csv`` and a plot. The exact ones run on the first of the ranks."""
    own = config.own(SemiUpdates, "semi_updates")
    rows: list[Row] = []
    for count in own.ranks:
        methods = (*EXACT, PUBLISHED) if count == own.ranks[0] else (PUBLISHED,)
        for method in methods:
            rows += _trained(own, config, method, count, run / "worlds" / f"{method}_{count}")
    write(run / "semi_updates.csv", rows, config.threads or 1)
    lines = curves(rows)
    with only_warned("plot"):
        plot(lines, f"{own.population} members, {len(own.seeds)} seeds: median, least and most", run / "semi_updates")
    table = [(name, *map(ACCURACY.text, line[max(line)])) for name, line in lines.items()]
    title = f"test accuracy after {own.generations} generations of {own.population} members"
    show(title, ("method", "median", "least", "most"), table, config.threads or 1, run / "semi_updates.csv")


def curves(rows: Sequence[Row]) -> dict[str, dict[int, tuple[float, float, float]]]:
    """Return the median, minimum and maximum over seeds, by method (with its ranks) and generation."""
    values_at: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        name = f"{row['method']}, {row['ranks']} ranks"
        values_at.setdefault(name, {}).setdefault(row["generation"], []).append(row[ACCURACY.name])
    return {
        name: {at: (statistics.median(values), min(values), max(values)) for at, values in line.items()}
        for name, line in values_at.items()
    }


def plot(lines: dict[str, dict[int, tuple[float, float, float]]], title: str, stem: Path) -> None:
    """Draw ``stem``.svg and .png."""
    drawn = []
    for place, (name, line) in enumerate(lines.items()):
        middle, least, most = zip(*line.values(), strict=True)
        drawn.append(Line(list(line), middle, name, COLOURS[place % 5], STYLES[place % 5], low=least, high=most))
    draw([Panel(drawn, {"title": title, "xlabel": "generation", "ylabel": ACCURACY.label})], stem)


def _trained(own: SemiUpdates, config: BenchConfig, method: str, ranks: int, folder: Path) -> list[Row]:
    """Return the rows of the runs by ``method`` on ``ranks`` ranks, one per seed. Raises RuntimeError when their world fails."""
    configs = [own.run_config(config, method, seed) for seed in own.seeds]
    entries = [{"config": each, "iterations": own.generations, "every": own.every} for each in configs]
    print(f"{method}, {ranks} ranks, seeds {', '.join(map(str, own.seeds))}", flush=True)
    results = measured_in_world(
        WORKER, {"fabric": config.plain["fabric"], "entries": entries}, make_network(config.plain), ranks, folder
    )
    return [
        {"method": method, "ranks": ranks, "seed": seed, "generation": int(at), ACCURACY.name: metrics[ACCURACY.name]}
        for seed, result in zip(own.seeds, results, strict=True)
        for at, metrics in result["evaluations"].items()
    ]
