"""``neuro bench noise``: nanoseconds per normal number by each way to generate it, and by the kernels of a run.

On the CPU, and also on ``device`` where that is a GPU, which is synchronized before a clock is read.
"""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.table import in_turn, show, spread, write
from neuro_cli.core import philox
from neuro_cli.core.machine.memory import keep_freed_memory
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import NOISE_STREAM, Noise
from neuro_cli.core.seeds import key_of
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import threads_of
from neuro_cli.runner.device import device_of

SIZE = 3_274_634  # the parameters of MNIST_3M
ROWS, SLICES = 32, 8
ADDRESSES, FEW = 1000, 16  # cost of a new address


Work = dict[str, tuple[int, Callable[[int], Any]]]  # name: normals that a call generates, and the function of a generation


def bench_noise(config: BenchConfig, run: Path) -> None:
    """Measure, print a table and write noise.csv."""
    count = threads_of(config.threads, SingleProcess(), device_of("cpu"))
    device = device_of(config.device)
    work = noise_work(count) | ({} if device.type == "cpu" else device_work(device))
    seconds = in_turn({name: function for name, (_, function) in work.items()}, config.repeats)
    rows = [
        {"what": name, "normals": work[name][0], "seconds": value, "ns_per_normal": 1e9 * value / work[name][0]}
        for name, values in seconds.items()
        for value in values
    ]
    write(run / "noise.csv", rows, count)
    table = []
    for name, values in seconds.items():
        each = spread([1e9 * value / work[name][0] for value in values])
        table.append((name, f"{work[name][0]:,}", each, f"{1e3 * statistics.median(values):.4f}"))
    show("standard normal numbers", ("what", "normals", "ns each", "median ms"), table, count, run / "noise.csv")


def device_work(device: torch.device) -> Work:
    """Return ways to generate SIZE * ROWS normals on a GPU."""
    noise, generator = Noise(1, SIZE, device, Threads(1)), torch.Generator(device)

    def definition(number: int) -> None:
        for direction in range(ROWS):
            chosen = torch.tensor([direction], device=device)
            philox.normals(philox.words(key_of(1), number, chosen, NOISE_STREAM, 0, SIZE))

    def waited(function: Callable[[int], Any]) -> Callable[[int], None]:
        def work(number: int) -> None:
            function(number)
            torch.cuda.synchronize(device)

        return work

    ways: dict[str, Callable[[int], Any]] = {
        f"neuro on {device}": lambda number: noise.draw(number, range(ROWS)),
        f"torch.randn on {device}": lambda number: torch.randn(ROWS, SIZE, generator=generator, device=device),
        f"neuro's definition in torch operations on {device}": definition,
    }
    return {name: (SIZE * ROWS, waited(function)) for name, function in ways.items()}


def noise_work(threads: int) -> Work:
    """Return ways to generate normals on the CPU."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    one, many = (Noise(1, SIZE, torch.device("cpu"), Threads(count)) for count in (1, threads))
    generator, sfc, counter = torch.Generator(), np.random.Generator(np.random.SFC64(1)), np.random.Generator(np.random.Philox(1))
    weights, part = np.ones((1, ROWS)), SIZE // SLICES

    def reseeded(number: int) -> None:
        for address in range(ADDRESSES):
            generator.manual_seed(number * ADDRESSES + address)
            torch.randn(FEW, generator=generator)

    def definition(number: int) -> None:
        philox.normals(philox.words(key_of(1), number, torch.tensor([0]), NOISE_STREAM, 0, part))

    def summed(number: int) -> None:
        many.combine(weights, (1,), number, range(ROWS), 0, part)

    return {
        "neuro, 1 thread": (SIZE, lambda number: one.draw(number, [0])),
        f"neuro, {threads} threads": (SIZE, lambda number: many.draw_whole(number, 0, NOISE_STREAM)),
        "torch.randn": (SIZE, lambda number: torch.randn(SIZE, generator=generator)),
        "numpy SFC64": (SIZE, lambda number: sfc.standard_normal(SIZE, np.float32)),
        "numpy Philox": (SIZE, lambda number: counter.standard_normal(SIZE, np.float32)),
        "neuro's definition in torch operations": (part, definition),
        f"neuro: {ADDRESSES:,} new addresses, {FEW} normals each": (
            ADDRESSES * FEW,
            lambda number: one.draw(number, range(ADDRESSES), 0, FEW),
        ),
        f"torch: {ADDRESSES:,} new seeds, {FEW} normals each": (ADDRESSES * FEW, reseeded),
        f"neuro: slice of 1/{SLICES} x {ROWS} directions, summed": (part * ROWS, summed),
    }
