"""Columns of ``metrics.csv``: their names, their order, and the row of one generation.

Scripts read columns by name. Metrics of the test set stand behind those of training, if the run's task declares them.
"""

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
    """Return what training measured in one generation."""
    return {"fitness_mean": fitness_mean, "fitness_best": fitness_best, "train_loss": train_loss, **more}


def row_of(generation: int, training: Row, tested: Mapping[str, float | None], cost: Cost, **more: float | None) -> Row:
    """Return the row of ``generation``: what ``training`` and the test measured, then the cost, then ``more``."""
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
