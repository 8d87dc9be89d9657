"""Replicated updates: every rank scores its share and computes the whole sum, so only P fitnesses cross the wire.

Salimans et al. 2017, algorithm 2 (shared seeds). Every rank generates the noise of all P members, so the time of an update
grows with P and not with 1/N; structured samplers make it cheap, with one noise for all and only factors per direction.
"""

from torch import Tensor

from neuro_cli.algo.base import Combination
from neuro_cli.distribution.base import Distribution


class Replicated(Distribution):
    name = "replicated"

    def combine(self, generation: int, combination: Combination) -> Tensor:
        return self.partial_sums(generation, combination, range(self.job.population), 0, self.job.columns)
