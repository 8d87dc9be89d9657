"""Worker of a scaling study: every rank of its world times the points one after the other.

    mpiexec -n N python -m neuro_cli.scaling.worker PLAN RESULTS

PLAN is JSON of rank 0's file system; RESULTS gets a JSON object. With ``pretend`` in a point, every rank at once does the work
of one rank of that many (:mod:`neuro_cli.fabric.simulated`), so that the machine is as busy as a node of a cluster.
"""

import statistics
import time
from typing import Any

import numpy as np

from neuro_cli.bench.world import work_in_world
from neuro_cli.fabric.base import Traffic, World
from neuro_cli.fabric.measure import timed_collectives
from neuro_cli.fabric.simulated import SimulatedWorld
from neuro_cli.runner.loop import assemble
from neuro_cli.runner.options import Options

BYTES = ("bytes_sent", "bytes_received", "interface_sent", "interface_received")
LIMIT = 10.0  # most seconds of a pretended generation; longer ones are extrapolated from smaller worlds


def timed_point(options: Options, world: World, warmup: int, repeats: int) -> dict[str, Any]:
    """Return seconds of ``repeats`` generations (slowest rank), phases of rank 0, bytes per generation (busiest rank)."""
    work = assemble(options, world)
    seconds, payload, wire = np.empty(repeats), np.zeros(2), np.zeros(2)
    try:
        for number in range(warmup + repeats):
            if number == warmup:
                work.clock.take()
                world.settle()
                wire -= _crossed(world)
            world.any(False)  # begin together
            sent, received = world.traffic.sent, world.traffic.received
            start = time.perf_counter()
            work.step(number)
            if number >= warmup:
                seconds[number - warmup] = time.perf_counter() - start
                payload += world.traffic.sent - sent, world.traffic.received - received
        world.settle()
        wire += _crossed(world)
        phases = work.clock.take()
    finally:
        work.close()
    most = world.all_gather(np.concatenate([payload, wire]) / repeats, [4] * world.size).reshape(world.size, 4).max(axis=0)
    slowest = world.all_gather(seconds, [repeats] * world.size).reshape(world.size, -1).max(axis=0)
    return {
        "seconds": slowest.tolist(),
        "phases": {name: spent / repeats for name, spent in phases.items()},
        "bytes": dict(zip(BYTES, most.tolist(), strict=True)),
    }


def _crossed(world: World) -> np.ndarray:
    """Return bytes sent and received at the interface so far; 0 where they are unknown."""
    wire = world.interface_traffic() or Traffic()
    return np.array([wire.sent, wire.received], np.float64)


class Pretending:
    """Timer of pretended points in growing worlds; a point that would take long is extrapolated from the two before."""

    def __init__(self, world: World, warmup: int, repeats: int) -> None:
        self._world, self._warmup, self._repeats = world, warmup, repeats
        self._history: dict[str, list[tuple[int, dict[str, Any]]]] = {}

    def point(self, options: Options, ranks: int, family: str) -> dict[str, Any]:
        """Return a rank's seconds per generation outside of collectives, in a world of ``ranks``, and its collectives."""
        history = self._history.setdefault(family, [])
        result = extrapolated(history[-2:], ranks) if len(history) >= 2 and _alike(history[-2:]) else None
        if result is None or result["seconds"][0] <= LIMIT:
            result = self._timed(options, ranks)
        history.append((ranks, result))
        return result

    def _timed(self, options: Options, ranks: int) -> dict[str, Any]:
        pretend = SimulatedWorld(ranks)
        work = assemble(options, pretend)
        seconds = np.empty(self._warmup + self._repeats)
        try:
            for number in range(len(seconds)):
                self._world.any(False)
                pretend.noted.clear()
                start = time.perf_counter()
                work.step(number)
                seconds[number] = time.perf_counter() - start
        finally:
            work.close()
        medians = self._world.all_gather(np.array([np.median(seconds[self._warmup :])]), [1] * self._world.size)
        calls = [[*noted.call, noted.began - start, noted.needed - start] for noted in pretend.noted]
        return {"seconds": [float(medians.mean())], "calls": calls, "extrapolated": False}


def _alike(history: list[tuple[int, dict[str, Any]]]) -> bool:
    """Return whether the two results have the same collectives."""
    (_, first), (_, second) = history
    return [call[0] for call in first["calls"]] == [call[0] for call in second["calls"]]


def extrapolated(history: list[tuple[int, dict[str, Any]]], ranks: int) -> dict[str, Any]:
    """Extrapolate seconds, and the bytes of every collective, by a straight line through two smaller worlds."""
    (low, first), (high, second) = history
    share = (ranks - low) / (high - low)

    def line(a: float, b: float) -> float:
        return a + share * (b - a)

    calls = [
        [kind, round(line(size, other[1])), line(began, other[2]), line(needed, other[3])]
        for (kind, size, began, needed), other in zip(first["calls"], second["calls"], strict=True)
    ]
    return {"seconds": [line(first["seconds"][0], second["seconds"][0])], "calls": calls, "extrapolated": True}


def run_plan(plan: dict[str, Any], world: World) -> dict[str, Any]:
    results: dict[str, Any] = {"points": [], "library": world.library}
    pretending = Pretending(world, plan["warmup"], plan["repeats"])
    for entry in plan["points"]:
        if "pretend" in entry:
            result = pretending.point(Options(entry["config"]), entry["pretend"], entry["family"])
        else:
            result = timed_point(Options(entry["config"]), world, plan["warmup"], plan["repeats"])
        results["points"].append(result)
        if world.rank == 0:
            print(f"  {entry['title']}: {statistics.median(result['seconds']):.4f} s", flush=True)
    results["collectives"] = timed_collectives(world, plan["sizes"], plan["repeats"]) if world.size > 1 else []
    return results


if __name__ == "__main__":
    work_in_world(run_plan)
