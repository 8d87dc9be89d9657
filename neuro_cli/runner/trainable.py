"""Interface of what the loop of ``neuro train`` runs: generations, test evaluations, checkpoints.

Populations that move a centre (:mod:`neuro_cli.runner.population`) and ensembles (:mod:`neuro_cli.runner.ensemble.training`)
implement it. The loop, the record, resume and scaling studies use nothing else.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuro_cli.core.clock import Clock
from neuro_cli.core.schedule import Schedule
from neuro_cli.logger.columns import Row
from neuro_cli.run_folder.checkpoint import Checkpoint
from neuro_cli.run_folder.record import Recorded, RunRecord
from neuro_cli.runner.config import RunConfig
from neuro_cli.task.base import Task
from neuro_cli.task.inputs import Inputs


class Trainable(Recorded):
    """Trainable on one rank: its share of a run."""

    config: RunConfig
    clock: Clock
    task: Task

    @property
    def packages(self) -> tuple[str, ...]:
        return self.task.packages

    def inputs(self) -> Inputs:
        return self.task.inputs()

    @property
    def schedules(self) -> Sequence[Schedule]:
        """Schedules of the algorithm; a time limit may move their ends."""
        return ()

    @abstractmethod
    def step(self, generation: int) -> Row:
        """Run a generation and return what training measured, by :func:`training_row`, the same columns every time.

        Raises CandidateError (on every rank) for scores that are not finite.
        """

    @abstractmethod
    def evaluate(self, generation: int) -> dict[str, float]:
        """Return the metrics on the test set after ``generation`` generations: those of :attr:`metrics`, and others."""

    @abstractmethod
    def save(self, generation: int, scalars: dict[str, Any], record: RunRecord | None) -> None:
        """Write a checkpoint through ``record`` (rank 0's), ``scalars`` in it. Every rank calls this."""

    @abstractmethod
    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint of what is trained. Raises UserError."""

    @abstractmethod
    def parameters_sha256(self) -> str:
        """Return a hash of all trained parameters, the same on every rank. Every rank calls this."""

    def begin(self, run: Path) -> None:
        """Prepare a trainable for a session in the folder ``run``, before its first generation. Every rank calls this."""

    def keep(self, generation: int, seconds: float) -> None:
        """Save the trainable's state after every generation that would be lost with this rank."""

    def aside(self) -> float:
        """Return the seconds of the trainable's last generation that were spent on other things than training."""
        return 0.0

    def efficiencies(self, seconds: float, communicated: float) -> Row:
        """Return weak and strong efficiency of the last generation, which took ``seconds``; nothing on one rank. On rank 0."""
        return {}

    def tested(self, values: Mapping[str, float] | None) -> Row:
        """Return the columns of a test evaluation with these ``values``; None: the generation had no evaluation."""
        return {metric.name: (values or {}).get(metric.name) for metric in self.metrics if metric.column}

    def finish(self) -> None:
        """Finish a trainable's session on rank 0 after its last checkpoint was written."""

    def close(self) -> None:
        """Finish pending exchanges of what is trained."""
        self.threads.close()
