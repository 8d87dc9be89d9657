"""Replicated updates: every rank scores its share and computes the whole sum, so only P fitnesses cross the wire.

Salimans et al. 2017, algorithm 2 (shared seeds). Every rank generates the noise of all P members, so the time of an update
grows with P and not with 1/N; structured samplers make it cheap, with one noise for all and only factors per direction.
"""

from torch import Tensor

from neuro_cli.algo.base import Combination
from neuro_cli.distribution.base import Distribution


class Replicated(Distribution):
    """Method where each rank has all scores (P, C) and sums over all members and columns. Raises ConfigError."""

    name = "replicated"
    repeats_sums = True

    def combine(self, generation: int, combination: Combination) -> Tensor:
        return self.partial_sums(generation, combination, range(self.job.population), 0, self.job.columns)
