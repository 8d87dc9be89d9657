"""CU: every rank makes the whole sum for its slice of the columns; slices are gathered.

DarwiNN (Petrica et al., GECCO 2020, chromosome updates): P fitnesses and M sums cross the wire, half of what
semi-updates need. A rank makes P * M / N numbers of noise, whatever N is. The optimizer steps on the gathered gradient on
every rank, so that any optimizer is served, also one that looks at whole tensors.
"""

import torch
from torch import Tensor

from neuro_cli.algo.base import Combination
from neuro_cli.distribution.base import Distribution
from neuro_cli.fabric.base import shares


class ChromosomeUpdates(Distribution):
    name = "chromosome_updates"

    def combine(self, generation: int, combination: Combination) -> Tensor:
        world = self.job.world
        slices = shares(self.job.columns, world.size)
        start, stop = slices[world.rank]
        own = self.partial_sums(generation, combination, range(self.job.population), start, stop)
        rows = len(own)
        with self.job.clock.phase("communicate"):
            gathered = world.all_gather(own.cpu().numpy().ravel(), [(b - a) * rows for a, b in slices])
            blocks = torch.from_numpy(gathered).split([(b - a) * rows for a, b in slices])
            sums = torch.cat([block.view(rows, -1) for block in blocks], dim=1)
        return sums.to(own.device)
