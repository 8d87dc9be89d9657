"""``neuro bench search``: test accuracy of the best candidate by search strategy, over tasks and seeds, against random search.

Every search is a job of a sweep, ``neuro search -m``, and its row is kept: the same command continues where it ended.

    neuro bench what=search search.seeds=[1,2,3,4,5] 'search.only=[digits]'
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuro_cli.bench.checks import integers
from neuro_cli.bench.table import append_row, finished_rows, machine, show
from neuro_cli.bench.trials import Row
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import ACCURACY
from neuro_cli.launch.quoting import quoted

BASELINE = "random"
STRATEGIES = ("generational", "steady_state", BASELINE)
IDENTITY = ("task", "strategy", "seed", "overrides")
FIELDS = (*IDENTITY, ACCURACY.name, "validation_accuracy", "first_generation", "trainings", "gain", "machine")


def bench_search(config: dict[str, Any], run: Path) -> None:
    """Search with every strategy and seed that has no row in ``search.results`` yet, and print the table.

    Raises UserError.
    """
    node = config["search"]
    results = run / "search.csv" if node["results"] is None else Path(node["results"])
    tasks, strategies, seeds, common = plan(node)
    done = finished_rows("search.results", results, FIELDS, IDENTITY)
    for task, own in tasks.items():
        overrides = " ".join([*own, *common])
        for strategy in strategies:  # the baseline first: a gain is against it
            missing = [seed for seed in seeds if (task, strategy, str(seed), overrides) not in done]
            if missing:
                print(f"neuro: {task}, {strategy}, seeds {', '.join(map(str, missing))}", flush=True)
                folder = run / f"{task}_{strategy}"
                _sweep(folder, strategy, missing, [*own, *common])
                for seed, summary in zip(missing, _summaries(folder, len(missing)), strict=True):
                    key = (task, strategy, str(seed), overrides)
                    done[key] = _row(key, summary, done)
                    append_row(results, done[key], FIELDS)
    rows = [
        done[task, strategy, str(seed), " ".join([*own, *common])]
        for task, own in tasks.items()
        for strategy in strategies
        for seed in seeds
    ]
    title = f"test accuracy of the best candidate by validation, means over {len(seeds)} seeds (each seed)"
    show(title, HEAD, table(rows), 1, results)


def plan(node: dict[str, Any]) -> tuple[dict[str, list[str]], list[str], list[int], list[str]]:
    """Return tasks with their overrides, strategies with the baseline first, seeds, and overrides of all. Raises ConfigError."""
    names = list(node["tasks"]) if node["only"] is None else node["only"]
    chosen = {str(one_of("search.only", name, tuple(node["tasks"]))): _texts(node["tasks"][name]) for name in names}
    wanted = [one_of("search.strategies", name, STRATEGIES) for name in node["strategies"]]
    seeds = integers("search.seeds", node["seeds"], 0, 2**63 - 1)
    return chosen, [BASELINE, *(name for name in wanted if name != BASELINE)], seeds, _texts(node["overrides"])


def _texts(node: Any) -> list[str]:
    if not isinstance(node, list) or not all(isinstance(text, str) for text in node):
        raise ConfigError("search.overrides", node, "must be a list of overrides of neuro search")
    return node


def _sweep(folder: Path, strategy: str, seeds: Sequence[int], overrides: Sequence[str]) -> None:
    """Run the searches one after the other in a process of its own. Raises UserError with its last line."""
    swept = (f"strategy={strategy}", f"seed={','.join(map(str, seeds))}", f"hydra.sweep.dir={quoted(str(folder))}")
    command = [sys.executable, "-P", "-m", "neuro_cli", "search", "-m", *overrides, *swept]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise UserError(f"what=search: {' '.join(done.stderr.strip().splitlines()[-1:])}")


def _summaries(folder: Path, count: int) -> list[dict[str, Any]]:
    """Return the summaries of a sweep's jobs, in the order of their seeds."""
    return [json.loads((folder / str(job) / "summary.json").read_bytes()) for job in range(count)]


def _row(key: tuple[str, ...], summary: dict[str, Any], done: dict[tuple[str, ...], Row]) -> Row:
    """Return the row of one search; ``gain``: over the baseline's of the same task and seed."""
    task, _, seed, overrides = key
    accuracy = summary[ACCURACY.name]
    if accuracy is None or not summary["complete"]:
        raise UserError(f"what=search: {task}, seed {seed}: the search trained no candidate, or was stopped")
    baseline = done.get((task, BASELINE, seed, overrides))
    gain = "" if baseline is None else repr(accuracy - float(baseline[ACCURACY.name]))
    first = summary["first_generation"][f"{ACCURACY.name}_median"]
    values = (accuracy, summary["validation_accuracy"], first, summary["trainings"], gain, machine(1))
    return dict(zip(FIELDS, (*key, *map(str, values)), strict=True))


HEAD = ("task", "strategy", "best candidate", "median of the first candidates", "gain over random search", "seeds with a gain")


def table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return a table with one line per task and strategy; the error of a mean gain is its standard error over seeds."""
    lines: list[tuple[str, ...]] = []
    for task, strategy in dict.fromkeys((row["task"], row["strategy"]) for row in rows):
        own = [row for row in rows if (row["task"], row["strategy"]) == (task, strategy)]
        first = statistics.fmean(float(row["first_generation"]) for row in own)
        lines.append((task, strategy, _means(own), f"{first:.4f}", *_gained([float(row["gain"]) for row in own if row["gain"]])))
    return lines


def _gained(gains: Sequence[float]) -> tuple[str, str]:
    if not gains:
        return "", ""
    error = statistics.stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
    return f"{statistics.fmean(gains):+.4f} ± {error:.4f}", f"{sum(gain > 0 for gain in gains)} of {len(gains)}"


def _means(rows: Sequence[Row]) -> str:
    accuracies = [float(row[ACCURACY.name]) for row in rows]
    return f"{statistics.fmean(accuracies):.4f} ({', '.join(f'{one:.4f}' for one in accuracies)})"
