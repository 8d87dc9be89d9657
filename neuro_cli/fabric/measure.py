"""Timing of a world's collectives, and the cost model fitted to it for other sizes and ranks."""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from neuro_cli.fabric.base import World
from neuro_cli.fabric.cost import Call, CostModel, fit
from neuro_cli.fabric.shares import shares

SMALL, LARGE = 256, 8 * 1024 * 1024  # bytes, far below and far above latency times bandwidth of usual networks
Timed = tuple[Call, int, float]  # collective, ranks, seconds


def timed_collectives(world: World, sizes: Sequence[int], repeats: int) -> list[Timed]:
    """Return the median seconds of an all-gather and an all-reduce of each size in bytes; the slowest rank counts."""
    timed: list[Timed] = []
    for size in sizes:
        values = np.zeros(max(1, size // 4), np.float32)
        counts = [b - a for a, b in shares(values.size, world.size)]
        block = values[: counts[world.rank]]
        gather = _median(world, partial(world.all_gather, block, counts), repeats)
        reduce = _median(world, partial(world.all_reduce, values), repeats)
        timed.append((("all_gather", values.nbytes), world.size, gather))
        timed.append((("all_reduce", values.nbytes), world.size, reduce))
    return timed


def _median(world: World, collective: Callable[[], object], repeats: int) -> float:
    seconds = np.empty(repeats + 1)
    for number in range(repeats + 1):
        world.any(False)  # all ranks begin together
        start = time.perf_counter()
        collective()
        seconds[number] = time.perf_counter() - start
    slowest = world.all_gather(seconds, [seconds.size] * world.size).reshape(world.size, -1).max(axis=0)
    return statistics.median(slowest[1:].tolist())


def fitted(timed: Sequence[Timed]) -> CostModel:
    """Return the cost model nearest to the measured times of collectives."""
    return CostModel(
        fit([entry for entry in timed if entry[0][0] == "all_gather"]),
        fit([entry for entry in timed if entry[0][0] == "all_reduce"]),
    )


def measured_cost(world: World) -> CostModel:
    """Measure the cost model of this world with a few collectives, which take fractions of a second."""
    return fitted(timed_collectives(world, (SMALL, LARGE), repeats=3))
