"""``neuro bench search``: test accuracy of the best candidate by search strategy, over tasks and seeds, against random search.

Every search is a job of a sweep, ``neuro search -m``, and adds its row at once: the same command continues where it ended.

    neuro bench what=search search.seeds=[1,2,3,4,5] 'search.only=[digits]'
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.bench.config import BenchConfig, integers
from neuro_cli.bench.stopwatch import Row
from neuro_cli.bench.table import append_row, finished_rows, machine, show
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import ACCURACY
from neuro_cli.launch.quoting import quoted
from neuro_cli.runner.config import key

BASELINE = "random"
STRATEGIES = ("generational", "steady_state", BASELINE)
IDENTITY = ("task", "strategy", "seed", "overrides")
FIELDS = (*IDENTITY, ACCURACY.name, "validation_accuracy", "first_generation", "trainings", "gain", "machine")


def _texts(key: str, node: Any) -> list[str]:
    """Return the overrides of a list. Raises ConfigError."""
    if not isinstance(node, list) or not all(isinstance(text, str) for text in node):
        raise ConfigError(key, node, "must be a list of overrides of neuro search")
    return node


@dataclass(frozen=True)
class Searches:
    results: str | None = key()
    seeds: list[int] = key(integers(0, 2**63 - 1))
    strategies: list[str] = key(lambda key, names: [one_of(key, name, STRATEGIES) for name in names])
    overrides: list[str] = key(_texts)
    only: list[str] | None = key()
    tasks: dict[str, Any] = key()

    @property
    def in_order(self) -> list[str]:
        """Search strategies, the baseline first, since a gain is against it."""
        return [BASELINE, *(name for name in self.strategies if name != BASELINE)]

    def chosen(self) -> dict[str, list[str]]:
        """Return all overrides of the searches by task. Raises ConfigError."""
        names = [one_of("search.only", name, tuple(self.tasks)) for name in (self.tasks if self.only is None else self.only)]
        return {name: [*_texts(f"search.tasks.{name}", self.tasks[name]), *self.overrides] for name in names}


def bench_search(config: BenchConfig, run: Path) -> None:
    """Search with every strategy and seed that has no row in ``search.results`` yet, and print the table.

    Raises UserError.
    """
    own = config.own(Searches, "search")
    results = run / "search.csv" if own.results is None else Path(own.results)
    done = finished_rows("search.results", results, FIELDS, IDENTITY)
    rows: list[Row] = []
    for task, overrides in own.chosen().items():
        for strategy in own.in_order:
            keys = {seed: (task, strategy, str(seed), " ".join(overrides)) for seed in own.seeds}
            missing = [seed for seed, key in keys.items() if key not in done]
            if missing:
                print(f"neuro: {task}, {strategy}, seeds {', '.join(map(str, missing))}", flush=True)
                folder = run / f"{task}_{strategy}"
                _sweep(folder, strategy, missing, overrides)
                for seed, summary in zip(missing, _summaries(folder, len(missing)), strict=True):
                    done[keys[seed]] = _row(keys[seed], summary, done)
                    append_row(results, done[keys[seed]], FIELDS)
            rows += [done[key] for key in keys.values()]
    title = f"test accuracy of the best candidate by validation, means over {len(own.seeds)} seeds (each seed)"
    show(title, HEAD, table(rows), 1, results)


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
