"""Columns of ``metrics.csv``: their names, their order, their groups for trackers, and the row of one generation.

Scripts read columns by name. Metrics of the test set stand behind those of training, if the run's task declares them.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, int | float | None]

TRAINING_COLUMNS = ("generation", "fitness_mean", "fitness_best", "train_loss")
COST_COLUMNS = (
    "seconds",
    "seconds_sample",
    "seconds_forward",
    "seconds_communicate",
    "seconds_update",
    "bytes_sent",
    "bytes_received",
    "candidates_per_second",
)
METRIC_COLUMNS = (*TRAINING_COLUMNS, *COST_COLUMNS)  # every run has these
RANK_COLUMNS = ("weak_efficiency", "strong_efficiency")  # runs on several ranks
CLUSTER_COLUMNS = ("peers", "term", "late", "leads")  # peers of neuro evolve
# last in the file; files of earlier versions lack them, and their runs resume without
LATER_COLUMNS = ("elapsed_seconds", "sigma", "rate", "non_finite")
# groups of trackers, which show each in one panel: ``train/loss`` for the column ``train_loss``
TRAIN, TEST, TIME, NETWORK, SCALING, CLUSTER = "train", "test", "time", "network", "scaling", "cluster"
# prefixes of columns that mean the same as a group
PREFIXES = {"train_": TRAIN, "test_": TEST, "seconds_": TIME}
KNOWN = {
    "seconds": (TIME, "seconds"),
    "elapsed_seconds": (TIME, "elapsed"),
    **{name: (SCALING, name) for name in RANK_COLUMNS},
    **{name: (NETWORK, name) for name in ("bytes_sent", "bytes_received")},
    **{name: (CLUSTER, name) for name in CLUSTER_COLUMNS},
}


def columns_of(row: Mapping[str, Any], evaluated: Collection[str]) -> list[str]:
    """Return the columns of a new file from its first ``row``; ``evaluated``: metrics of the test set."""
    tested = [name for name in row if name in evaluated]
    others = [name for name in row if name not in METRIC_COLUMNS and name not in tested]
    return [*TRAINING_COLUMNS, *tested, *COST_COLUMNS, *sorted(others, key=lambda name: name in LATER_COLUMNS)]


@dataclass(frozen=True)
class Cost:
    """Cost of one generation of ``members``: ``seconds``, the share of each phase in them, bytes sent and received."""

    seconds: float
    phases: Mapping[str, float]
    sent: int
    received: int
    members: int


def training_row(fitness_mean: float, fitness_best: float, train_loss: float | None, **more: float | None) -> Row:
    """Return the columns that training measured in one generation."""
    return {"fitness_mean": fitness_mean, "fitness_best": fitness_best, "train_loss": train_loss, **more}


def row_of(generation: int, training: Row, tested: Mapping[str, float | None], cost: Cost, **more: float | None) -> Row:
    """Return the columns of ``generation``: what ``training`` and the test measured, then the cost, then ``more``."""
    return {
        "generation": generation,
        **training,
        **tested,
        "seconds": cost.seconds,
        **{f"seconds_{phase}": seconds for phase, seconds in cost.phases.items()},
        "bytes_sent": cost.sent,
        "bytes_received": cost.received,
        "candidates_per_second": cost.members / cost.seconds,
        **more,
    }


def grouped(row: Row, evaluated: Collection[str] = ()) -> dict[str, int | float]:
    """Return ``row`` for trackers by group and name, without its generation and without None; names with a slash stay.

    ``evaluated``: the columns that evaluations on the test set fill. Columns that would share a name keep their full one.
    """
    columns = [name for name in row if name != "generation"]
    short = {name: _short(name, evaluated) for name in columns}
    shared = Counter(short.values())
    metrics: dict[str, int | float] = {}
    for name in columns:
        group, ending = short[name]
        value = row[name]
        if value is not None:
            metrics[f"{group}/{name if shared[group, ending] > 1 else ending}" if group else name] = value
    return metrics


def _short(name: str, evaluated: Collection[str]) -> tuple[str, str]:
    """Return the group and the name within it; no group for a name that has one."""
    if "/" in name:
        return "", name
    if name in KNOWN:
        return KNOWN[name]
    for prefix, group in PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return group, name.removeprefix(prefix)
    if name.endswith("_per_second"):
        return TIME, name
    return (TEST if name in evaluated else TRAIN), name
