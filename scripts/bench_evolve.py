"""Measures how fast peers of ``neuro evolve`` work: one on a core, two on two cores, and the bare environment.

In every round each has its turn: the environment stepped alone with random actions (on one core, and on two at once: what the
machine gives; only for tasks that have one), a cluster of one peer bound to one core, a cluster of two peers bound to two. A
cluster's rate is what all its peers have scored, in environment steps or candidates, over the seconds between its iterations;
the first ones, which compile, do not count. ``population`` is a peer's, so two peers have twice the work.

    python scripts/bench_evolve.py task=lunar_lander model=mlp_policy population=64
"""

import argparse
import csv
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from neuro_cli.bench.table import machine, ratios, spread
from neuro_cli.core.files import config_folder
from neuro_cli.factory.instantiate import make
from neuro_cli.task.base import Task
from neuro_cli.task.reinforcement import Reinforcement

UNCOUNTED = 3  # iterations


def bound_to(cores: list[int]) -> None:
    os.sched_setaffinity(0, cores)


def cluster_rate(overrides: list[str], peers: int, iterations: int, cores: list[int], folder: Path) -> float:
    """Return steps or candidates a second of all peers together."""
    run = folder / f"{peers}-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "neuro_cli", "evolve", *overrides, f"cluster.local_peers={peers}", "threads=1"]
    command += [f"generations={iterations + UNCOUNTED}", "evaluate.every=1000000", "checkpoint.every=1000000"]
    done = subprocess.run(
        [*command, f"hydra.run.dir={run}"], capture_output=True, text=True, preexec_fn=lambda: bound_to(cores[:peers])
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))[UNCOUNTED:-1]  # the last one includes an evaluation on the test set
    lost = [row["generation"] for row in rows if int(row["peers"]) != peers]
    if lost:
        print(f"iterations {', '.join(lost)} ran without a peer", file=sys.stderr)
    seconds = sum(float(row["seconds"]) for row in rows)
    return sum(work_of(row) for row in rows) / seconds


def work_of(row: dict[str, str]) -> float:
    if "environment_steps" in row:
        return float(row["environment_steps"])
    return float(row["candidates_per_second"]) * float(row["seconds"])


def bare_rate(config: dict[str, Any], steps: int, core: int) -> float:
    """Return steps a second of one environment on ``core``, with random actions drawn beforehand."""
    bound_to([core])
    environment = make(config, "task", Reinforcement).maker.make()
    environment.action_space.seed(0)
    drawn = [environment.action_space.sample() for _ in range(steps)]
    start = time.perf_counter()
    environment.reset(seed=0)
    for number, action in enumerate(drawn):
        _, _, terminated, truncated, _ = environment.step(action)
        if terminated or truncated:
            environment.reset(seed=number)
    return steps / (time.perf_counter() - start)


def bare_rates(config: dict[str, Any], steps: int, cores: list[int]) -> float:
    """Return the summed rates of environments that are stepped at the same time, one on each of ``cores``."""
    with multiprocessing.get_context("fork").Pool(len(cores)) as pool:
        return sum(pool.starmap(bare_rate, [(config, steps, core) for core in cores], chunksize=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--steps", type=int, default=50_000, help="of the bare environment, in a round")
    parser.add_argument("overrides", nargs="*", help="of neuro evolve")
    options = parser.parse_args()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config: Any = OmegaConf.to_container(compose("evolve", options.overrides), resolve=True)
    task: Task = make(config, "task", Task)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("two cores are needed")
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        for _ in range(options.rounds):
            if isinstance(task, Reinforcement):
                rates.setdefault("bare environment", []).append(bare_rates(config, options.steps, cores[:1]))
                rates.setdefault("2 bare environments", []).append(bare_rates(config, options.steps, cores[:2]))
            for peers in (1, 2):
                rate = cluster_rate(options.overrides, peers, options.iterations, cores, Path(name))
                rates.setdefault(f"{peers} peer{'s' * (peers > 1)}", []).append(rate)
    unit = "environment steps" if isinstance(task, Reinforcement) else "candidates"
    table = Table("system", f"{unit}/s", "over one peer", "over the bare environment")
    for system, values in rates.items():
        bare = spread(ratios(values, rates["bare environment"])) if "bare environment" in rates else ""
        table.add_row(system, f"{statistics.median(values):,.0f}", spread(ratios(values, rates["1 peer"])), bare)
    console = Console(width=max(Console().width, 100))
    console.print(table)
    console.print(f"medians of {options.rounds} rounds (least to most); {' '.join(options.overrides)}; {machine(1)}")


if __name__ == "__main__":
    main()
