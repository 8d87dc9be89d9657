"""``neuro bench generation``: seconds of one whole generation, their phases, and ratios to the textbook loop and the roof.

Every system is a process of its own (its peak memory is its own, its threads disturb no other) and makes one generation
in turn, so that a drift of the machine affects all alike.
"""

import csv
import json
import os
import statistics
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.table import Table

from neuro_cli.bench.table import machine, wide_console
from neuro_cli.bench.workers.generation import FAILED, REFUSED
from neuro_cli.core.checks import boolean, one_of
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.process import exit_text, start, stop
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import device_of, threads_of

GONE_SECONDS = 30.0  # for a process without input to end
SPLIT = ("sample", "perturb", "forward", "communicate", "update")


class BenchProcess:
    """System in a process of its own, which makes one generation per line that it reads."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        self.name = name
        self.rows: list[dict[str, float]] = []
        command = [sys.executable, "-P", "-m", "neuro_cli.bench.workers.generation", name, json.dumps(config)]
        environment = os.environ | {"OMP_NUM_THREADS": str(config["threads"])}
        self._process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def generation(self, counted: bool) -> None:
        """Make one generation. Raises UserError when the process ended or refused its config, RuntimeError when it failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            (code,) = stop(self._process, patience=GONE_SECONDS, ask=False)
            raise UserError(f"bench: the process of {self.name} ended with {exit_text(code)}")
        row = json.loads(answer)
        if REFUSED in row:
            raise UserError(row[REFUSED])
        if FAILED in row:
            raise RuntimeError(f"{self.name}: {row[FAILED]}")
        if counted:
            self.rows.append(row)

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # a line that it did not read any more
                self._process.stdin.close()  # asks for its end
        stop(self._process, patience=GONE_SECONDS, ask=False)

    def median(self, key: str) -> float:
        return statistics.median(row[key] for row in self.rows)

    def ratio_to(self, other: "BenchProcess") -> str:
        """Line with the median ratio of the pairs of generations, and their minimum and maximum."""
        pairs = sorted(a["seconds"] / b["seconds"] for a, b in zip(self.rows, other.rows, strict=True))
        return f"{self.name} / {other.name}: {statistics.median(pairs):.3f} (pairs {pairs[0]:.3f} to {pairs[-1]:.3f})"


def bench_generation(config: dict[str, Any], run: Path) -> None:
    """Measure, print a table and write bench.csv. Raises UserError."""
    reference = one_of("reference", config["reference"], ("textbook", "none"))
    config["threads"] = threads_of(config["threads"], SingleProcess(), device_of(config["device"]))
    names = ["neuro", *([reference] if reference != "none" else []), *(["roof"] if boolean("roof", config["roof"]) else [])]
    workers = [BenchProcess(name, config) for name in names]
    try:
        for repeat in range(config["repeats"] + 1):
            for worker in workers:
                worker.generation(counted=repeat > 0)
    finally:
        for worker in workers:
            worker.close()
    _write(run / "bench.csv", workers)
    _print(config, workers, run)


def _write(path: Path, workers: list[BenchProcess]) -> None:
    with path.open("w", newline="") as file:
        columns = ["system", "repeat", *workers[0].rows[0]]
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for worker in workers:
            writer.writerows({"system": worker.name, "repeat": i, **row} for i, row in enumerate(worker.rows))


def _print(config: dict[str, Any], workers: list[BenchProcess], run: Path) -> None:
    model = config["model"]["_target_"].rsplit(".", 1)[-1]
    title = f"one generation: {model}, population {config['population']}, {config['batch_size']} examples, {config['precision']}"
    table = Table("system", "median s", "min to max s", "candidates/s", "peak MB", "of imports", *SPLIT, title=title)
    for worker in workers:
        seconds = [row["seconds"] for row in worker.rows]
        table.add_row(
            worker.name,
            f"{worker.median('seconds'):.3f}",
            f"{min(seconds):.3f} to {max(seconds):.3f}",
            f"{config['population'] / worker.median('seconds'):.1f}",
            f"{max(row['peak_memory_bytes'] for row in worker.rows) / 1e6:.0f}",
            f"{worker.median('imports_memory_bytes') / 1e6:.0f}",
            *(f"{worker.median(name):.3f}" for name in SPLIT),
        )
    console = wide_console()
    console.print(table)
    first = workers[0]
    for other in workers[1:]:
        console.print(first.ratio_to(other))
    console.print(machine(config["threads"]))
    print(f"neuro: results in {run / 'bench.csv'}")
