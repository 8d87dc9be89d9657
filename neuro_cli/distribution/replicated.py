"""Replicated updates: every rank scores its share and computes the complete sum, so that only P fitnesses cross the wire.

Salimans et al. 2017, algorithm 2 (shared seeds). Every rank generates the noise of all P members, so that the time of an update
grows with P and does not shrink with N. Structured samplers make it cheap: members share noise and differ by a few factors.

``share_node`` (ours): a machine is one of Salimans' workers. Its ranks share out the columns and gather the slices in its
memory, as chromosome updates do among all ranks. No bit changes, and machines still send each other fitnesses only.
"""

import torch
from torch import Tensor

from neuro_cli.algo.base import Combination
from neuro_cli.core.checks import boolean
from neuro_cli.distribution.base import Distribution, PopulationContext
from neuro_cli.distribution.codec import Cast, slices, unpack
from neuro_cli.sampler.base import Sampler

EXACT = Cast(torch.float32)


class Replicated(Distribution):
    """Method where each rank has all scores (P, C) and sums over all members and columns.

    ``share_node``: the ranks of a machine share out the columns. Raises ConfigError.
    """

    name = "replicated"

    def __init__(self, share_node: bool = False) -> None:
        self.share_node = boolean("distribution.share_node", share_node)

    @property
    def sums_alone(self) -> float:
        world = self.job.world
        return (world.local_size if self.share_node else 1) / world.size

    def bind(self, job: PopulationContext) -> None:
        super().bind(job)
        self._slices = slices(job.columns, job.world.local_size if self.share_node else 1, EXACT.block)

    def move(self, generation: int, combination: Combination) -> None:
        spans = self.algo.spans if len(self._slices) == 1 else None
        if spans is None:
            super().move(generation, combination)
            return
        sampler = self.job.sampler
        if isinstance(sampler, Sampler):  # one memory for all: holes between the states of an optimizer would fit none
            longest = max(stop - start for start, stop in spans)
            sampler.room = torch.empty(longest * len(combination.weights), dtype=torch.float32, device=self.algo.centre.device)
        for start, stop in spans:
            sums = self.partial_sums(generation, combination, range(self.job.population), start, stop)
            with self.job.clock.phase("update"):
                self.algo.tell_span(generation, sums, start)
        if isinstance(sampler, Sampler):
            sampler.room = None

    def combine(self, generation: int, combination: Combination) -> Tensor:
        job, rows = self.job, len(combination.weights)
        if len(self._slices) == 1:
            return self.partial_sums(generation, combination, range(job.population), 0, job.columns)
        own = self.partial_sums(generation, combination, range(job.population), *self._slices[job.world.local_rank])
        with job.clock.phase("communicate"):
            counts = [EXACT.size(rows, high - low) for low, high in self._slices]
            gathered = job.world.all_gather_on_node(EXACT.encode(own).cpu().numpy(), counts)
            sums = torch.empty(rows, job.columns, device=own.device, dtype=torch.float32)
            unpack(EXACT, gathered, self._slices, sums)
        return sums
