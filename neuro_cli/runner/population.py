"""Training of a population that moves a centre, and of the gradient baseline."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from neuro_cli.algo.base import WORST, State
from neuro_cli.algo.random_vote import RandomVote
from neuro_cli.core.metric import Metric
from neuro_cli.core.schedule import Schedule, schedules_of
from neuro_cli.distribution.efficiency import EfficiencyMeter
from neuro_cli.logger.columns import RANK_COLUMNS, Row, training_row
from neuro_cli.run_folder.checkpoint import Checkpoint
from neuro_cli.run_folder.record import RunRecord
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.batch_norm import buffers_of
from neuro_cli.runner.bind import Population
from neuro_cli.runner.build import Parts
from neuro_cli.runner.centre_evaluation import centre_module, evaluate_centre
from neuro_cli.runner.gains import choose_open
from neuro_cli.runner.trainable import Trainable
from neuro_cli.runner.vote import vote_of
from neuro_cli.sampler.base import Sampler


class PopulationTraining(Trainable):
    """Training of one population's centre. Every rank has a copy; rank 0 writes checkpoints."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.config, self.world, self.device = parts.config, parts.world, parts.device
        self.threads, self.clock, self.task = parts.threads, parts.clock, parts.task
        self.parameters = parts.layout.size
        self.candidates = 1 if parts.algo.uses_gradient else parts.size
        self.method = parts.distribution.name
        self._meter: EfficiencyMeter | None = None
        self._measured: list[Row] = []

    @property
    def packages(self) -> tuple[str, ...]:
        return (*super().packages, *getattr(type(self.parts.model), "packages", ()))

    @property
    def schedules(self) -> Sequence[Schedule]:
        return schedules_of(self.parts.algo)

    def begin(self, run: Path) -> None:
        self._meter = self.parts.distribution.watch()

    def aside(self) -> float:
        return 0.0 if self._meter is None else self._meter.aside

    def efficiencies(self, seconds: float, communicated: float) -> Row:
        if self._meter is None:
            return {}
        self._measured.append(self._meter.take(seconds, communicated))
        return self._measured[-1]

    def facts(self) -> dict[str, Any]:
        """Return the median efficiencies of the population's training in this session."""
        return {name: statistics.median(row[name] or 0.0 for row in self._measured) for name in RANK_COLUMNS if self._measured}

    def step(self, generation: int) -> Row:
        start, algo = time.perf_counter(), self.parts.algo
        choose_open(self.parts, generation)
        sizes: Row = {"sigma": algo.sigma_at(generation), "rate": algo.rate_at(generation)}
        report = self.parts.distribution.step(generation)
        if not algo.uses_gradient:
            self.candidates = self.parts.distribution.job.scorer.scored
        row = training_row(report.fitness_mean, report.fitness_best, report.loss)
        if report.means is not None:
            row |= self.parts.task.measures(report.means, self.candidates, time.perf_counter() - start)
        if algo.non_finite == WORST:
            row["non_finite"] = report.non_finite
        return row | sizes

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self.parts.task.metrics

    def evaluate(self, generation: int) -> dict[str, float]:
        parts = self.parts
        if not parts.algo.uses_gradient:
            parts.distribution.job.scorer.release()
        return evaluate_centre(parts, self._solution(generation))

    def trained(self, generation: int) -> nn.Module:
        return self.parts.task.deployed(self._solution(generation))

    def _solution(self, generation: int) -> nn.Module:
        """Return the module that is evaluated and saved: the solution, or a vote around it."""
        parts, algo = self.parts, self.parts.algo
        module = centre_module(parts, algo.solution, max(generation - 1, 0))
        if not isinstance(algo, RandomVote):
            return module
        assert isinstance(parts.distribution.job.sampler, Sampler)
        return vote_of(module, parts.distribution.job.sampler, parts.layout, algo, self.config.plain)

    def save(self, generation: int, scalars: dict[str, Any], record: RunRecord | None) -> None:
        """Write a population's checkpoint on rank 0, after all ranks have compared their centres."""
        parts = self.parts
        state = compared(parts, generation)
        if record is None:
            return
        tensors = state.tensors
        if any(True for _ in parts.model.buffers()):  # a model without buffers has no statistics to compute
            module = centre_module(parts, parts.algo.solution, max(generation - 1, 0))
            tensors |= {f"buffers.{name}": tensor for name, tensor in buffers_of(module).items()}
        record.save(generation, tensors, {**scalars, **state.scalars, **parts.constants.scalars()})

    def restore(self, checkpoint: Checkpoint) -> None:
        self.parts.constants.refuse_other(self.parts.model, checkpoint.scalars)
        self.parts.restore(State(checkpoint.tensors, checkpoint.scalars))

    def parameters_sha256(self) -> str:
        return parameters_sha256(self.parts.algo.solution)


def compared(population: Population, generation: int) -> State:
    """Return the state of a population after all ranks have compared their centres: complete on rank 0, empty elsewhere.

    Methods that send no centre need equal arithmetic on all ranks; different processors could diverge unnoticed.
    """
    # not the solution: an average of centres could hide a difference in the last bit
    digest = np.frombuffer(bytes.fromhex(parameters_sha256(population.algo.centre))[:8], np.int64)
    digests = population.world.all_gather(digest, [1] * population.world.size)
    if (digests != digests[0]).any():
        raise RuntimeError(f"the centres of the ranks differ at generation {generation}: are their processors unlike?")
    return population.state()
