"""Cost model of collectives on a network: seconds as a function of ranks and bytes.

Messages cost ``latency`` each and ``bytes / bandwidth``; their number and length depend on the algorithm. The
choices are those of MPICH (Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in
MPICH", sections 3 and 4), simplified to one short and one long algorithm each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

GATHER_LONG = 512 * 1024  # total bytes from which an all-gather uses a ring
REDUCE_LONG = 2048  # bytes from which an all-reduce is a reduce-scatter and an all-gather

# name of a collective, and the bytes that every rank has at its end
Call = tuple[str, int]


@dataclass(frozen=True)
class Cost:
    """Cost of one collective: ``latency`` in seconds per message, software included; ``bandwidth`` in payload bytes/s."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class CostModel:
    """Costs on one network of every collective that a generation uses."""

    all_gather: Cost
    all_reduce: Cost

    def seconds(self, call: Call, ranks: int) -> float:
        """Return the seconds of a collective on ``ranks`` ranks."""
        kind, size = call
        messages, volume = shape_of(call, ranks)
        cost = self.all_reduce if kind == "all_reduce" else self.all_gather
        return messages * cost.latency + volume * size / cost.bandwidth


def shape_of(call: Call, ranks: int) -> tuple[float, float]:
    """Return the number of sequential messages, and a rank's bytes in them as a multiple of the bytes at the end."""
    kind, size = call
    if ranks == 1:
        return 0.0, 0.0
    doublings, others = math.ceil(math.log2(ranks)), (ranks - 1) / ranks
    if kind == "all_gather":
        return (ranks - 1, others) if size >= GATHER_LONG else (doublings, others)
    if kind == "all_reduce":
        return (2 * doublings, 2 * others) if size > REDUCE_LONG else (doublings, doublings)
    if kind == "message":
        return 1.0, 1.0
    if kind == "all_to_all":
        return ranks - 1, others
    raise AssertionError(f"{kind} is no collective of a world")


def stalled(calls: Sequence[tuple[Call, float, float]], model: CostModel, ranks: int) -> float:
    """Return the cost in seconds that a rank waits for its collectives: (call, its begin, when its outcome was needed) each.

    The times are those of a rank that never waits. A rank's messages use its link one after the other.
    """
    late, free = 0.0, 0.0
    ends: dict[int, float] = {}
    events = [(began, 0, number) for number, (_, began, _) in enumerate(calls)]
    events += [(needed, 1, number) for number, (_, _, needed) in enumerate(calls)]
    for at, needed, number in sorted(events, key=lambda event: (event[0], event[2], event[1])):
        if needed:
            late = max(late, ends[number] - at)
        else:
            free = max(at + late, free) + model.seconds(calls[number][0], ranks)
            ends[number] = free
    return late


def fit(measured: Sequence[tuple[Call, int, float]]) -> Cost:
    """Fit the cost of one collective to (call, ranks, seconds) by least squares of relative errors; neither part below zero.

    One size must be far below, one far above the product of latency and bandwidth.
    """
    rows = []
    for call, ranks, seconds in measured:
        messages, volume = shape_of(call, ranks)
        rows.append([messages / seconds, volume * call[1] / seconds])
    latency, per_byte = _least_squares_above_zero(np.array(rows), np.ones(len(rows)))
    return Cost(latency, 1.0 / max(per_byte, 1e-15))


def _least_squares_above_zero(rows: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Solve least squares of ``rows`` (N, 2) times two numbers, neither below zero, against ``right`` (N,).

    Where the free solution has a negative part, the constrained one lies on an axis. scipy.optimize.nnls would do the same, but
    importing it takes a second on every rank with distribution=auto.
    """
    free = np.linalg.lstsq(rows, right)[0]
    if (free >= 0).all():
        return float(free[0]), float(free[1])
    squares = (rows**2).sum(0)
    alone = np.maximum(right @ rows / np.where(squares > 0, squares, 1.0), 0.0)
    gains = squares * alone**2  # decrease of the sum of squares
    return (float(alone[0]), 0.0) if gains[0] >= gains[1] else (0.0, float(alone[1]))
