"""``neuro bench ensemble`` compares joint training over ranks with one process; ``neuro bench ensemble_bytes`` counts bytes sent.

The first compares losses with those of one process and one graph, iteration by iteration: in float64 on several numbers of
ranks, and in float32 over an epoch, with the figure of the post (Webb 2019). The second counts at the fabric.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.bench.config import BenchConfig, integers
from neuro_cli.bench.table import show, write
from neuro_cli.bench.world import measured_in_world
from neuro_cli.core.errors import only_warned
from neuro_cli.core.metric import ACCURACY
from neuro_cli.run_folder.plot import BLUE, GREEN, VERMILION, Line, Panel, draw
from neuro_cli.runner.config import bounded, key

WORKER = "neuro_cli.bench.workers.training"
REFERENCE = "single_graph"
EXACT = ("logits_allreduce", "logits_tree")  # methods without staleness
CURVES = ((REFERENCE, 1), ("logits_allreduce", 2), ("logits_pipelined", 2))  # the first two are the post's
EARLY = 20  # iterations in which the post sees no difference yet


@dataclass(frozen=True)
class Bytes:
    task: dict[str, Any] = key()
    models: dict[str, Any] = key()
    batch_size: int = key(bounded(2))


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig:
    task: dict[str, Any] = key()
    model: dict[str, Any] = key()
    algo: dict[str, Any] = key()
    batch_size: int = key(bounded(1))
    methods: dict[str, Any] = key()
    ranks: list[int] = key()
    iterations: int = key(bounded(1))
    curve_iterations: int = key(bounded(1))
    bytes: Bytes

    def __post_init__(self) -> None:
        integers(1, self.algo["size"])("ensemble.ranks", self.ranks)


def bench_ensemble(config: BenchConfig, run: Path) -> None:
    """Print the largest differences and the accuracies after an epoch; write ``ensemble.csv``, ``.png``, ``.svg``."""
    worlds = _Worlds(config, run)
    own, epoch = worlds.own, worlds.own.curve_iterations
    reference = worlds.run(1, [worlds.entry(REFERENCE, "float64", own.iterations)])[0]["losses"]
    rows: list[dict[str, Any]] = []
    for count in own.ranks:
        entries = [worlds.entry(method, "float64", own.iterations) for method in EXACT]
        for method, result in zip(EXACT, worlds.run(count, entries), strict=True):
            rows.append({"method": method, "ranks": count, "dtype": "float64"} | _gaps(result["losses"], reference))
    curves = {}
    for method, count in CURVES:
        (result,) = worlds.run(count, [worlds.entry(method, "float32", epoch, every=epoch)])
        name = f"{method}, {count} rank{'s' * (count > 1)}"
        curves[name] = result["losses"]
        gaps = _gaps(result["losses"], next(iter(curves.values())))
        accuracy = {ACCURACY.name: result["evaluations"][str(epoch)][ACCURACY.name]}
        rows.append({"method": method, "ranks": count, "dtype": "float32"} | gaps | accuracy)
    rows = [{ACCURACY.name: None, **row} for row in rows]
    with only_warned("plot"):
        _plot(curves, run / "ensemble")
    write(run / "ensemble.csv", rows, config.threads or 1)
    gaps_of = (f"largest |loss - {REFERENCE}'s|", f"in the first {EARLY}")
    columns = ("method", "ranks", "dtype", "iterations", *gaps_of, ACCURACY.label)
    lines = [
        (row["method"], str(row["ranks"]), row["dtype"], str(row["iterations"]),
         f"{row['largest_gap']:.1e}", f"{row['early_gap']:.1e}",
         "" if row[ACCURACY.name] is None else ACCURACY.text(row[ACCURACY.name]))
        for row in rows
    ]  # fmt: skip
    title = f"ensemble of {own.algo['size']}: losses against one process and one graph"
    show(title, columns, lines, config.threads or 1, run / "ensemble.csv")


def bench_ensemble_bytes(config: BenchConfig, run: Path) -> None:
    """Print the bytes that one of two ranks sends per iteration, for networks of several sizes; write ``ensemble_bytes.csv``."""
    worlds, rows = _Worlds(config, run), []
    own, batch = worlds.own.bytes, worlds.own.bytes.batch_size
    for name, model in own.models.items():
        both = {"model": model, "task": own.task, "batch_size": batch}
        members = worlds.entry("logits_allreduce", "float32", 1, size=2, **both)
        single = worlds.entry("batch_parallel", "float32", 1, size=1, **both)
        logits, gradients = worlds.run(2, [members, single])
        values = gradients["sent"] / 4
        rows.append(
            {
                "model": name,
                "parameters": gradients["parameters"],
                "batch_size": batch,
                "logits_sent": logits["sent"],
                "logits_received": logits["received"],
                "logit_values": logits["sent"] / 8,
                "batch_parallel_sent": gradients["sent"],
                "batch_parallel_received": gradients["received"],
                "batch_parallel_values": values,
            }
        )
    write(run / "ensemble_bytes.csv", rows, config.threads or 1)
    columns = ("model", "parameters", "values each way: logits", "batch-parallel", "bytes each way: logits", "batch-parallel")
    lines = [
        (str(row["model"]), f"{row['parameters']:,}", f"{row['logit_values']:,.0f}", f"{row['batch_parallel_values']:,.0f}",
         f"{row['logits_sent']:,.0f}", f"{row['batch_parallel_sent']:,.0f}")
        for row in rows
    ]  # fmt: skip
    title = f"an iteration of {batch} examples, a rank of two, counted at the fabric"
    show(title, columns, lines, config.threads or 1, run / "ensemble_bytes.csv")


class _Worlds:
    """Series of worlds, each with a folder of its own for its plan and results; ``own``: section ``ensemble``."""

    def __init__(self, config: BenchConfig, run: Path) -> None:
        self.own, self._config, self._run, self._count = config.own(EnsembleConfig, "ensemble"), config, run, 0

    def entry(
        self, method: str, dtype: str, iterations: int, every: int = 0, size: int | None = None, **changes: Any
    ) -> dict[str, Any]:
        """Return an entry of a plan: a training run of ``size`` members (None: as configured) by ``method``."""
        keys = {name: getattr(self.own, name) for name in ("task", "model", "batch_size")} | changes
        keys["algo"] = self.own.algo | {"dtype": dtype, "size": size or self.own.algo["size"]}
        keys |= {"distribution": self.own.methods[method], "threads": self._config.threads or 1}
        config = copy.deepcopy({**self._config.plain, **keys})
        return {"config": config, "title": f"{method} {dtype}", "iterations": iterations, "every": every}

    def run(self, ranks: int, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Run ``entries`` on ``ranks`` ranks and return their results. Raises RuntimeError when the world fails."""
        self._count += 1
        print(f"{ranks} rank{'s' * (ranks > 1)}: {', '.join(entry['title'] for entry in entries)}", flush=True)
        plan = {"fabric": self._config.plain["fabric"], "entries": entries}
        folder = self._run / "worlds" / f"{self._count}_of_{ranks}"
        return measured_in_world(WORKER, plan, ranks, folder)


def _gaps(losses: list[float], reference: list[float]) -> dict[str, float]:
    """Return the number of iterations, and the largest differences of the losses in all of them and in the first ``EARLY``."""
    gaps = _differences(losses, reference)
    return {"iterations": len(gaps), "largest_gap": max(gaps), "early_gap": max(gaps[:EARLY])}


def _differences(losses: list[float], reference: list[float]) -> list[float]:
    return [abs(own - other) for own, other in zip(losses, reference, strict=True)]


def _plot(curves: dict[str, list[float]], stem: Path) -> None:
    """Plot the losses of all curves against the iteration, as the post does, and under them their differences from the first."""
    reference = next(iter(curves.values()))
    styles = (("-", BLUE, 3.0), ("--", VERMILION, 1.5), (":", GREEN, 1.5))
    losses, gaps = [], []
    for (name, values), (style, colour, width) in zip(curves.items(), styles, strict=True):
        x = range(1, len(values) + 1)
        losses.append(Line(x, values, name, colour, style, width=width))
        if values is not reference:
            gaps.append(Line(x, _differences(values, reference), "", colour, style, width=1.0))
    below = {"xlabel": "iteration", "ylabel": "difference from the first", "yscale": "log"}
    draw([Panel(losses, {"ylabel": "loss of the ensemble"}, height=3.9), Panel(gaps, below, height=2.5)], stem)
