"""Replicated updates: every rank scores its share and computes the complete sum, so that only P fitnesses cross the wire.

Salimans et al. 2017, algorithm 2 (shared seeds). Every rank generates the noise of all P members, so that the time of an update
grows with P and does not shrink with N. Structured samplers make it cheap: members share noise and differ by a few factors.

``share_node`` (ours): a machine is one of Salimans' workers. Its ranks share out the columns and gather the slices in its
memory, as chromosome updates do among all ranks. No bit changes, and machines still send each other fitnesses only.
"""

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, GradientAlgorithm
from neuro_cli.core.checks import boolean
from neuro_cli.distribution.base import Distribution, StepReport
from neuro_cli.distribution.codec import Cast, slices, unpack
from neuro_cli.distribution.finite import candidate_error
from neuro_cli.fabric.shares import shares
from neuro_cli.sampler.base import Sampler

EXACT = Cast(torch.float32)


class Replicated(Distribution):
    """Method where each rank has all scores (P, C) and sums over all members and columns.

    ``share_node``: the ranks of a machine share out the columns. Raises ConfigError.
    """

    name = "replicated"
    sums_columns = True

    def __init__(self, share_node: bool = False) -> None:
        self.share_node = boolean("distribution.share_node", share_node)

    @property
    def sums_alone(self) -> float:
        world = self.job.world
        return (world.local_size if self.share_node else 1) / world.size

    def move(self, generation: int, combination: Combination) -> None:
        spans, sampler = self.spans(), self.job.sampler
        if not spans or not isinstance(sampler, Sampler):
            super().move(generation, combination)
            return
        # one memory for the sums of all spans: holes between the states of an optimizer would fit none
        longest = max(stop - start for start, stop in spans) * len(combination.weights)
        sampler.room = torch.empty(longest, dtype=torch.float32, device=self.algo.centre.device)
        try:
            super().move(generation, combination)
        finally:
            sampler.room = None

    def combine(self, generation: int, combination: Combination, start: int = 0, stop: int | None = None) -> Tensor:
        job, rows, stop = self.job, len(combination.weights), self.job.columns if stop is None else stop
        if not self.share_node or job.world.local_size == 1:
            return self.partial_sums(generation, combination, range(job.population), start, stop)
        parts = slices(stop - start, job.world.local_size, EXACT.block)
        low, high = parts[job.world.local_rank]
        own = self.partial_sums(generation, combination, range(job.population), start + low, start + high)
        with job.clock.phase("communicate"):
            counts = [EXACT.size(rows, high - low) for low, high in parts]
            gathered = job.world.all_gather_on_node(EXACT.encode(own).cpu().numpy(), counts)
            sums = torch.empty(rows, stop - start, device=own.device, dtype=torch.float32)
            unpack(EXACT, torch.from_numpy(gathered).to(own.device).split(counts), parts, sums)
        return sums

    def gradient_step(self, generation: int) -> StepReport:
        """Step on the mean gradient over the batch: ranks' gradients are all-reduced, weighted by their shares of it."""
        job, algo = self.job, self.job.algo
        assert isinstance(algo, GradientAlgorithm)
        low, high = shares(job.batch_size, job.world.size)[job.world.rank]
        batch = job.scorer.task.batch(generation, low, high)
        weight = job.scorer.task.share(generation, low, high)
        with job.clock.phase("forward"):
            loss, gradient = job.scorer.gradient(algo.centre, batch)
        # the loss travels with the gradient: one collective instead of two
        message = np.append(gradient.cpu().numpy() * np.float32(weight), np.float32(loss * weight))
        with job.clock.phase("communicate"):
            job.world.all_reduce(message)
        mean_loss = float(message[-1])
        if not np.isfinite(mean_loss):
            raise candidate_error(job.scorer.task, "the batch", generation, 0, -mean_loss)
        with job.clock.phase("update"):
            algo.tell_gradient(generation, torch.from_numpy(message[:-1]).to(gradient.device))
        return StepReport(-mean_loss, -mean_loss, mean_loss)
