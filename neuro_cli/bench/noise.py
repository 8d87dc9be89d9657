"""``neuro bench noise``: nanoseconds per normal number by each way to generate it, and by the kernels of a run.

On the CPU, and also on ``device`` where that is a GPU, which is synchronized before a clock is read.
"""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuro_cli.bench.table import in_turn, show, spread, write
from neuro_cli.core import philox
from neuro_cli.core.machine.memory import keep_freed_memory
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import NOISE_STREAM, Noise
from neuro_cli.core.seeds import key_of
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import device_of, threads_of

SIZE = 3_274_634  # the parameters of MNIST_3M
ROWS, SLICES = 32, 8
ADDRESSES, FEW = 1000, 16  # cost of a new address


def bench_noise(config: dict[str, Any], run: Path) -> None:
    """Measure, print a table and write noise.csv."""
    count = threads_of(config["threads"], SingleProcess(), device_of("cpu"))
    device = device_of(config["device"])
    there = {} if device.type == "cpu" else device_work(device)
    seconds = in_turn(noise_work(count) | there, config["repeats"])
    normals = normals_of(count) | dict.fromkeys(there, SIZE * ROWS)
    rows = [
        {"what": name, "normals": normals[name], "seconds": value, "ns_per_normal": 1e9 * value / normals[name]}
        for name, values in seconds.items()
        for value in values
    ]
    write(run / "noise.csv", rows, count)
    table = [
        (
            name,
            f"{normals[name]:,}",
            spread([1e9 * value / normals[name] for value in values]),
            f"{1e3 * statistics.median(values):.4f}",
        )
        for name, values in seconds.items()
    ]
    show("standard normal numbers", ("what", "normals", "ns each", "median ms"), table, count, run / "noise.csv")


def device_work(device: torch.device) -> dict[str, Callable[[int], Any]]:
    """Return ways to generate SIZE * ROWS normals on a GPU; their argument is the generation."""
    noise = Noise(1, SIZE, device, Threads(1))
    generator = torch.Generator(device)

    def drawn(number: int) -> None:
        noise.draw(number, range(ROWS))
        torch.cuda.synchronize(device)

    def torch_drawn(number: int) -> None:
        torch.randn(ROWS, SIZE, generator=generator, device=device)
        torch.cuda.synchronize(device)

    def definition(number: int) -> None:
        for direction in range(ROWS):
            chosen = torch.tensor([direction], device=device)
            philox.normals(philox.words(key_of(1), number, chosen, NOISE_STREAM, 0, SIZE))
        torch.cuda.synchronize(device)

    return {
        f"neuro on {device}": drawn,
        f"torch.randn on {device}": torch_drawn,
        f"neuro's definition in torch operations on {device}": definition,
    }


def normals_of(threads: int) -> dict[str, int]:
    """Return how many normals each piece of :func:`noise_work` generates."""
    whole = dict.fromkeys(("neuro, 1 thread", f"neuro, {threads} threads", "torch.randn", "numpy SFC64", "numpy Philox"), SIZE)
    part = SIZE // SLICES * ROWS
    return whole | {
        "neuro's definition in torch operations": SIZE // SLICES,
        f"neuro: {ADDRESSES:,} new addresses, {FEW} normals each": ADDRESSES * FEW,
        f"torch: {ADDRESSES:,} new seeds, {FEW} normals each": ADDRESSES * FEW,
        f"neuro: slice of 1/{SLICES} x {ROWS} directions, summed": part,
    }


def noise_work(threads: int) -> dict[str, Callable[[int], Any]]:
    """Return ways to generate normals by name; their argument is the generation."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    one, many = (Noise(1, SIZE, torch.device("cpu"), Threads(count)) for count in (1, threads))
    generator, sfc, counter = torch.Generator(), np.random.Generator(np.random.SFC64(1)), np.random.Generator(np.random.Philox(1))
    weights = np.ones((1, ROWS))

    def reseeded(number: int) -> None:
        for address in range(ADDRESSES):
            generator.manual_seed(number * ADDRESSES + address)
            torch.randn(FEW, generator=generator)

    def definition(number: int) -> None:
        philox.normals(philox.words(key_of(1), number, torch.tensor([0]), NOISE_STREAM, 0, SIZE // SLICES))

    work = {
        "neuro, 1 thread": lambda number: one.draw(number, [0]),
        f"neuro, {threads} threads": lambda number: many.draw_whole(number, 0, NOISE_STREAM),
        "torch.randn": lambda number: torch.randn(SIZE, generator=generator),
        "numpy SFC64": lambda number: sfc.standard_normal(SIZE, np.float32),
        "numpy Philox": lambda number: counter.standard_normal(SIZE, np.float32),
        "neuro's definition in torch operations": definition,
        f"neuro: {ADDRESSES:,} new addresses, {FEW} normals each": lambda number: one.draw(number, range(ADDRESSES), 0, FEW),
        f"torch: {ADDRESSES:,} new seeds, {FEW} normals each": reseeded,
        f"neuro: slice of 1/{SLICES} x {ROWS} directions, summed": lambda number: many.combine(
            weights, (1,), number, range(ROWS), 0, SIZE // SLICES
        ),
    }
    return work
