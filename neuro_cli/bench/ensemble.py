"""``neuro bench ensemble`` compares joint training over ranks with one process; ``neuro bench ensemble_bytes`` counts bytes sent.

The first compares losses with those of one process and one graph, iteration by iteration: in float64 on several numbers of
ranks, and in float32 over an epoch, with the figure of the post (Webb 2019). The second counts at the fabric.
"""

import copy
from pathlib import Path
from typing import Any

from neuro_cli.bench.checks import integers
from neuro_cli.bench.table import show, write
from neuro_cli.bench.world import measured_in_world
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import only_warned
from neuro_cli.core.metric import ACCURACY
from neuro_cli.run_folder.palette import BLUE, GREEN, VERMILION
from neuro_cli.run_folder.plot import Line, Panel, draw
from neuro_cli.runner.options import make_network

WORKER = "neuro_cli.bench.workers.training"
REFERENCE = "single_graph"
EXACT = ("logits_allreduce", "logits_tree")  # without staleness
CURVES = ((REFERENCE, 1), ("logits_allreduce", 2), ("logits_pipelined", 2))  # the first two are the post's
EARLY = 20  # iterations in which the post sees no difference yet


def bench_ensemble(config: dict[str, Any], run: Path) -> None:
    """Print the largest differences and the accuracies after an epoch; write ``ensemble.csv``, ``.png``, ``.svg``."""
    ranks = integers("ensemble.ranks", config["ensemble"]["ranks"], 1, config["ensemble"]["algo"]["size"])
    iterations, epoch = (_positive(config, key) for key in ("iterations", "curve_iterations"))
    worlds = _Worlds(config, run)
    reference = worlds.run(1, [_entry(config, REFERENCE, "float64", iterations)])[0]["losses"]
    rows: list[dict[str, Any]] = []
    for count in ranks:
        entries = [_entry(config, method, "float64", iterations) for method in EXACT]
        for method, result in zip(EXACT, worlds.run(count, entries), strict=True):
            rows.append({"method": method, "ranks": count, "dtype": "float64"} | _gaps(result["losses"], reference))
    curves = {}
    for method, count in CURVES:
        (result,) = worlds.run(count, [_entry(config, method, "float32", epoch, every=epoch)])
        name = f"{method}, {count} rank{'s' * (count > 1)}"
        curves[name] = result["losses"]
        gaps = _gaps(result["losses"], next(iter(curves.values())))
        accuracy = {ACCURACY.name: result["evaluations"][str(epoch)][ACCURACY.name]}
        rows.append({"method": method, "ranks": count, "dtype": "float32"} | gaps | accuracy)
    rows = [{ACCURACY.name: None, **row} for row in rows]
    with only_warned("plot"):
        _plot(curves, run / "ensemble")
    write(run / "ensemble.csv", rows, config["threads"] or 1)
    columns = (
        "method",
        "ranks",
        "dtype",
        "iterations",
        f"largest |loss - {REFERENCE}'s|",
        f"in the first {EARLY}",
        ACCURACY.label,
    )
    lines = [
        (row["method"], str(row["ranks"]), row["dtype"], str(row["iterations"]),
         f"{row['largest_gap']:.1e}", f"{row['early_gap']:.1e}",
         "" if row[ACCURACY.name] is None else ACCURACY.text(row[ACCURACY.name]))
        for row in rows
    ]  # fmt: skip
    title = f"ensemble of {config['ensemble']['algo']['size']}: losses against one process and one graph"
    show(title, columns, lines, config["threads"] or 1, run / "ensemble.csv")


def bench_bytes(config: dict[str, Any], run: Path) -> None:
    """Print the bytes that one of two ranks sends per iteration, for networks of several sizes; write ``ensemble_bytes.csv``."""
    node = config["ensemble"]["bytes"]
    batch = integer("ensemble.bytes.batch_size", node["batch_size"], 2)
    worlds, rows = _Worlds(config, run), []
    for name, model in node["models"].items():
        both = {"model": model, "task": node["task"], "batch_size": batch}
        members = _entry(config, "logits_allreduce", "float32", 1)
        single = _entry(config, "batch_parallel", "float32", 1)
        for entry, size in ((members, 2), (single, 1)):
            entry["config"] |= copy.deepcopy(both)
            entry["config"]["algo"]["size"] = size
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
    write(run / "ensemble_bytes.csv", rows, config["threads"] or 1)
    columns = ("model", "parameters", "values each way: logits", "batch-parallel", "bytes each way: logits", "batch-parallel")
    lines = [
        (str(row["model"]), f"{row['parameters']:,}", f"{row['logit_values']:,.0f}", f"{row['batch_parallel_values']:,.0f}",
         f"{row['logits_sent']:,.0f}", f"{row['batch_parallel_sent']:,.0f}")
        for row in rows
    ]  # fmt: skip
    title = f"an iteration of {batch} examples, a rank of two, counted at the fabric"
    show(title, columns, lines, config["threads"] or 1, run / "ensemble_bytes.csv")


class _Worlds:
    """Series of worlds, each with a folder of its own for its plan and results."""

    def __init__(self, config: dict[str, Any], run: Path) -> None:
        self._config, self._run, self._count = config, run, 0

    def run(self, ranks: int, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Run ``entries`` on ``ranks`` ranks and return their results. Raises RuntimeError when the world fails."""
        self._count += 1
        print(f"{ranks} rank{'s' * (ranks > 1)}: {', '.join(entry['title'] for entry in entries)}", flush=True)
        plan = {"fabric": self._config["fabric"], "entries": entries}
        folder = self._run / "worlds" / f"{self._count}_of_{ranks}"
        results: list[dict[str, Any]] = measured_in_world(WORKER, plan, make_network(self._config), ranks, folder)
        return results


def _entry(config: dict[str, Any], method: str, dtype: str, iterations: int, every: int = 0) -> dict[str, Any]:
    """Return an entry of a world's plan: the training run of the config's section ``ensemble`` with one method."""
    node = config["ensemble"]
    own = {key: copy.deepcopy(node[key]) for key in ("task", "model", "algo", "batch_size")}
    own["algo"]["dtype"] = dtype
    own["distribution"] = copy.deepcopy(node["methods"][method])
    own["threads"] = config["threads"] or 1
    return {"config": {**config, **own}, "title": f"{method} {dtype}", "iterations": iterations, "every": every}


def _positive(config: dict[str, Any], key: str) -> int:
    return integer(f"ensemble.{key}", config["ensemble"][key], 1)


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
