"""Data parallelism for comparison: every rank has all members and a share of the minibatch, gradients are all-reduced.

Each parameter's gradient crosses the wire, out and in. With ``algo.size=1`` it trains one network. Running statistics of
batch norm are averaged over the ranks; batches are normalised by each rank's share.
"""

import logging

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_cli.algo.ensemble import JointOutcome, joint_outcome
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.ensemble.base import EnsembleContext, EnsembleMethod
from neuro_cli.fabric.base import World
from neuro_cli.fabric.shares import shares

log = logging.getLogger(__name__)


class BatchParallel(EnsembleMethod):
    name = "batch_parallel"
    replicates = True

    def held(self, size: int, world: World) -> range:
        return range(size)

    def bind(self, job: EnsembleContext) -> None:
        super().bind(job)
        if job.world.size > job.batch_size:
            raise ConfigError("ranks", job.world.size, f"must be <= batch_size={job.batch_size}")
        parts = [part for member in job.members.values() for part in member.module.modules()]
        if job.world.size > 1 and any(isinstance(part, _BatchNorm) for part in parts):
            log.warning("batch norm sees each rank's share of the batch only: losses differ from one rank's")

    def step(self, iteration: int) -> JointOutcome:
        job = self.job
        low, high = shares(job.batch_size, job.world.size)[job.world.rank]
        batch, members = job.batch(iteration, low, high), list(job.members.values())
        logits = self.logits(iteration, batch.inputs, members)
        mean = torch.stack(logits).mean(0)
        own = joint_outcome(mean, batch.targets, job.size, job.batch_size)
        with job.clock.phase("update"):
            job.threads.map(lambda member: member.back(iteration, own.gradient), members)
        numbers = [number for member in members for number in member.shared()]
        message = _message(numbers, (own.loss, own.accuracy))
        with job.clock.phase("communicate"):
            job.world.all_reduce(message)
        loss, accuracy = float(message[-2]), float(message[-1])
        if not np.isfinite(loss):
            self.refuse(iteration, logits)
        with job.clock.phase("update"):
            _spread(message, numbers, job.world.size)
            job.threads.map(lambda member: member.step(iteration), members)
        return JointOutcome(loss, accuracy, own.gradient)


def _message(numbers: list[tuple[Tensor, bool]], more: tuple[float, float]) -> np.ndarray:
    """Concatenate all numbers in one row, then ``more``."""
    row = torch.cat([tensor.flatten() for tensor, _ in numbers]).cpu().numpy()
    return np.append(row, np.array(more, row.dtype))


def _spread(message: np.ndarray, numbers: list[tuple[Tensor, bool]], ranks: int) -> None:
    """Write the sums back into their tensors; the means into those that are averaged."""
    start, row = 0, torch.from_numpy(message)
    for tensor, averaged in numbers:
        piece = row[start : start + tensor.numel()].view(tensor.shape)
        tensor.copy_(piece / ranks if averaged else piece)
        start += tensor.numel()
