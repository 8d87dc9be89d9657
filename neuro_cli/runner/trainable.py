"""What the loop of ``neuro train`` runs: one generation after the other, looks at the test set, checkpoints.

Populations that move a centre (:mod:`neuro_cli.runner.population`) and ensembles (:mod:`neuro_cli.runner.ensemble.training`) are
such work; the loop, the record, resume and scaling studies know no more of them than this.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch

from neuro_cli.core.clock import Clock
from neuro_cli.core.metric import Metric
from neuro_cli.core.threads import Threads
from neuro_cli.fabric.base import World
from neuro_cli.run_folder.checkpoint import Checkpoint
from neuro_cli.run_folder.record import RunRecord

Row = dict[str, float | None]


class Trainable(ABC):
    """On one rank. ``parameters``: numbers that are learnt, on all ranks; ``candidates``: networks run in a generation."""

    config: dict[str, Any]
    world: World
    device: torch.device
    threads: Threads
    clock: Clock
    parameters: int
    candidates: int
    method: str  # name of the distribution method

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """What :meth:`evaluate` measures, the headline first."""

    @abstractmethod
    def step(self, generation: int) -> Row:
        """Do a generation and say how it went: columns of ``metrics.csv``, ``fitness_mean``, ``fitness_best`` and ``train_loss``
        among them, the same columns every time. Raises CandidateError (on every rank) when it cannot count.
        """

    @abstractmethod
    def evaluate(self, generation: int) -> dict[str, float]:
        """Metrics on the test set after ``generation`` generations: those of :attr:`metrics`, and others."""

    @abstractmethod
    def save(self, generation: int, scalars: dict[str, Any], record: RunRecord | None) -> None:
        """Write a checkpoint through ``record`` (rank 0's), ``scalars`` in it. Every rank calls this."""

    @abstractmethod
    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint. Raises UserError."""

    @abstractmethod
    def parameters_sha256(self) -> str:
        """A hash of all that was learnt, the same on every rank. Every rank calls this."""

    def begin(self, run: Path) -> None:  # noqa: B027 (most work keeps nothing)
        """Called before the first generation of a session in the folder ``run``. Every rank calls this."""

    def keep(self, generation: int, seconds: float) -> None:  # noqa: B027
        """Called after every generation: put aside what a lost rank must not take with it."""

    def columns(self) -> tuple[str, ...]:
        """Names of the metrics that are columns of ``metrics.csv``."""
        return tuple(metric.name for metric in self.metrics if metric.column)

    def facts(self) -> dict[str, Any]:
        """More for ``summary.json``."""
        return {}

    def finish(self) -> None:  # noqa: B027
        """Called on rank 0 when the session has ended well, its last checkpoint written."""

    def close(self) -> None:
        """End what is under way."""
        self.threads.close()
