"""Seconds and memory of a generation against parameters, population and ranks: growth.csv, growth.svg and growth.png.

Each point is a world of its own, in which the other two numbers stay in the middle. The network is an MLP of two hidden layers;
the exponent of a column is the slope since the point before on doubly logarithmic axes: 1 is a straight line.

python scripts/bench_growth.py --repeats 5 --population 16 128 1024 8192
"""

import argparse
import csv
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import neuro_cli as neuro
from neuro_cli.bench.table import machine, markdown
from neuro_cli.fabric.network import Network
from neuro_cli.fabric.start import launched_world
from neuro_cli.launch.launcher import world_start
from neuro_cli.run_folder.palette import BLUE, VERMILION
from neuro_cli.run_folder.plot import Line, Panel, draw
from neuro_cli.run_folder.summary import peak_memory_bytes

INPUTS, OUTPUTS, EXAMPLES = 64, 10, 16  # sizes of the network; examples of a member
MIDDLE = {"parameters": 100_000, "population": 128, "ranks": 1}  # of the axes along which a measurement does not go
DENSE = 2 * 10**9  # most numbers of dense noise in a generation; larger points have low_rank alone
WARM = 3.0  # seconds of generations before: loops compile, and small networks are watched more closely in their first sixteen
COLOURS = {"antithetic": BLUE, "low_rank": VERMILION}

Row = dict[str, Any]


def network(parameters: int) -> nn.Sequential:
    """Return the MLP whose hidden width comes nearest to ``parameters``."""
    linear = INPUTS + OUTPUTS + 2
    width = max(1, round((math.sqrt(linear**2 + 4 * parameters) - linear) / 2))
    return nn.Sequential(
        nn.Linear(INPUTS, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, OUTPUTS)
    )  # fmt: skip


def negative_loss(member: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -F.cross_entropy(member(inputs), targets, reduction="none")


def measure(point: Row, results: Path) -> None:
    """Write the seconds of each generation and the largest rank's peak memory above its imports, as one rank of the world."""
    world = launched_world()
    torch.manual_seed(1)
    inputs, targets = torch.randn(EXAMPLES, INPUTS), torch.randint(0, OUTPUTS, (EXAMPLES,))
    imports, seconds, module = peak_memory_bytes(), [], network(point["parameters"])
    evolution = neuro.Evolution(
        module, population=point["population"], sampler=point["sampler"], sigma=0.01, lr=0.01, optimizer=torch.optim.SGD,
        seed=1, threads=point["threads"], world=world,
    )  # fmt: skip
    with evolution:
        warm = time.perf_counter() + WARM
        evolution.step(negative_loss, inputs, targets)
        while world.any(time.perf_counter() < warm):
            evolution.step(negative_loss, inputs, targets)
        for _ in range(point["repeats"]):
            world.any(False)  # ranks begin together
            begun = time.perf_counter()
            evolution.step(negative_loss, inputs, targets)
            world.any(False)
            seconds.append(time.perf_counter() - begun)
        memory = world.all_gather(np.array([float(peak_memory_bytes() - imports)]), [1] * world.size).max()
    if world.rank == 0:
        parameters = sum(parameter.numel() for parameter in module.parameters())
        results.write_text(json.dumps({"parameters": parameters, "seconds": seconds, "memory_bytes": float(memory)}))


def measured(point: Row, folder: Path) -> Row:
    """Return the row of a point, from a world of its own."""
    print(point, flush=True)
    results = folder / f"{point['axis']}_{point['sampler']}_{point[point['axis']]}.json"
    command = [sys.executable, str(Path(__file__).resolve()), "--point", json.dumps(point), str(results)]
    if world_start(point["ranks"], command, Network("native")).run():
        raise SystemExit("the world ended before all was measured")
    seen = json.loads(results.read_text())
    seconds = {"seconds": statistics.median(seen["seconds"]), "least": min(seen["seconds"]), "most": max(seen["seconds"])}
    return point | {"parameters": seen["parameters"], "memory_bytes": seen["memory_bytes"], **seconds}


def points(chosen: argparse.Namespace) -> Iterator[Row]:
    for sampler in chosen.samplers:
        for axis in MIDDLE:
            for value in getattr(chosen, axis):
                point = {"axis": axis, "sampler": sampler, **MIDDLE, axis: value}
                if sampler == "low_rank" or point["parameters"] * point["population"] <= DENSE:
                    yield point | {"repeats": chosen.repeats, "threads": chosen.threads}


def exponent(before: Row, row: Row, column: str) -> str:
    if (before["axis"], before["sampler"]) != (row["axis"], row["sampler"]):
        return ""
    return f"{math.log(row[column] / before[column]) / math.log(row[row['axis']] / before[row['axis']]):.2f}"


def panels(rows: list[Row]) -> Iterator[Panel]:
    """Yield the panels of seconds, then those of memory, a column for each axis."""
    for column, label, unit in (("seconds", "seconds of a generation", 1.0), ("memory_bytes", "MB of a rank above imports", 1e6)):
        for axis in MIDDLE:
            lines = []
            for sampler, colour in COLOURS.items():
                mine = [row for row in rows if (row["axis"], row["sampler"]) == (axis, sampler)]
                low, high = ([row[end] for row in mine] if column == "seconds" else () for end in ("least", "most"))
                values = [row[column] / unit for row in mine]
                lines.append(Line([row[axis] for row in mine], values, sampler, colour, marker=".", low=low, high=high))
            yield Panel(lines, {"xlabel": axis, "ylabel": label, "xscale": "log", "yscale": "log"}, height=3.6)


HEAD = ("axis", "sampler", "parameters", "population", "ranks", "seconds", "exponent", "MB of a rank", "exponent")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samplers", nargs="+", default=list(COLOURS), choices=list(COLOURS))
    parser.add_argument("--parameters", nargs="+", type=int, default=[10**power for power in range(3, 9)])
    parser.add_argument("--population", nargs="+", type=int, default=[16, 128, 1024, 8192, 65536])
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--folder", type=Path, default=Path("outputs/growth"))
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)  # one rank of a point's world
    chosen = parser.parse_args()
    if chosen.point:
        measure(json.loads(chosen.point[0]), Path(chosen.point[1]))
        return
    chosen.folder.mkdir(parents=True, exist_ok=True)
    rows = [measured(point, chosen.folder) for point in points(chosen)]
    with (chosen.folder / "growth.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    draw(list(panels(rows)), chosen.folder / "growth", columns=3, title=f"a generation with {EXAMPLES} examples a member")
    lines = [
        (row["axis"], row["sampler"], f"{row['parameters']:,}", f"{row['population']:,}", str(row["ranks"]),
         f"{row['seconds']:.4g} ({row['least']:.4g} to {row['most']:.4g})", exponent(before, row, "seconds"),
         f"{row['memory_bytes'] / 1e6:.0f}", exponent(before, row, "memory_bytes"))
        for before, row in zip([{"axis": "", "sampler": ""}, *rows], rows, strict=False)
    ]  # fmt: skip
    print(f"{markdown(HEAD, lines)}\n\n{machine(chosen.threads)}")


if __name__ == "__main__":
    main()
