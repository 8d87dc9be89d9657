"""Every rank scores its share and makes the whole sum itself: P fitnesses cross the wire and nothing else.

Salimans et al. 2017, algorithm 2 (shared seeds). Noise for all P members is made on every rank, so the update does not
shrink with N and grows with P; structured samplers make it cheap: one noise for all, and for each direction factors only.
"""

from torch import Tensor

from neuro_cli.algo.base import Combination
from neuro_cli.distribution.base import Distribution


class Replicated(Distribution):
    name = "replicated"

    def combine(self, generation: int, combination: Combination) -> Tensor:
        return self.partial_sums(generation, combination, range(self.job.population), 0, self.job.columns)
