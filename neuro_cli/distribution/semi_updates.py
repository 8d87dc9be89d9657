"""SU: every rank sums the perturbations of its own members over all columns; the sums are all-reduced.

DarwiNN (Petrica et al., GECCO 2020, semi-updates). ``ranks_shaping``:

- ``global``: fitnesses are gathered first and shaped together; the centre is that of the other methods.
- ``local``: the published variant. Each rank shapes its own members' fitnesses, the updates are averaged by members,
  and no fitness is gathered; the result depends on N.
"""

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, PopulationAlgorithm
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.base import Distribution, Report, candidate_error, first_bad
from neuro_cli.fabric.base import shares


class SemiUpdates(Distribution):
    name = "semi_updates"

    def __init__(self, ranks_shaping: str = "global") -> None:
        self.ranks_shaping = one_of("distribution.ranks_shaping", ranks_shaping, ("global", "local"))

    def check(self) -> None:
        super().check()
        algo = self.job.algo
        if self.ranks_shaping == "local" and isinstance(algo, PopulationAlgorithm) and not algo.can_shape_parts():
            raise ConfigError("distribution.ranks_shaping", "local", "algo=genetic selects among all members; use global")
        cut = any(low % 2 for low, _ in shares(self.job.population, self.job.world.size))
        if self.ranks_shaping == "local" and isinstance(algo, PopulationAlgorithm) and algo.needs_pairs and cut:
            allowed = f"algo.shaping compares pairs, which {self.job.world.size} ranks would part: choose an even share for each"
            raise ConfigError("population", self.job.population, allowed)

    def combine(self, generation: int, combination: Combination) -> Tensor:
        return self._reduced(self.partial_sums(generation, combination, self.members, 0, self.job.columns))

    def _reduced(self, own: Tensor) -> Tensor:
        with self.job.clock.phase("communicate"):
            values = np.ascontiguousarray(own.cpu().numpy())
            self.job.world.all_reduce(values)
        return torch.from_numpy(values).to(own.device)

    def step(self, generation: int) -> Report:
        if self.ranks_shaping == "global" or self.job.algo.uses_gradient:
            return super().step(generation)
        job, algo, members = self.job, self.job.algo, self.members
        assert isinstance(algo, PopulationAlgorithm)
        scores = self.own_scores(generation, algo.ask(generation)).astype(np.float64)
        means = self._agree(generation, scores)
        with job.clock.phase("update"):
            part = algo.combination(generation, scores[:, 0])
            weights = np.zeros((len(part.weights), job.population))
            weights[:, members.start : members.stop] = part.weights * (len(members) / job.population)
        sums = self._reduced(self.partial_sums(generation, Combination(weights, part.moments), members, 0, job.columns))
        with job.clock.phase("update"):
            algo.tell(generation, sums)
        return means

    def _agree(self, generation: int, scores: np.ndarray) -> Report:
        """Means over all ranks; a fitness that is not finite on one rank is raised by all of them."""
        job = self.job
        bad = first_bad(scores)
        member, fitness = (self.members.start + bad[0], bad[1]) if bad else (-1, 0.0)
        own = np.concatenate([scores.sum(axis=0), [scores[:, 0].max(), member, fitness]])
        with job.clock.phase("communicate"):
            table = job.world.all_gather(own, [len(own)] * job.world.size).reshape(job.world.size, -1)
        for bad_member, bad_fitness in table[:, -2:]:
            if bad_member >= 0:
                raise candidate_error(int(bad_member), generation, float(bad_fitness))
        means = table[:, :-3].sum(axis=0) / job.population
        return Report(float(means[0]), float(table[:, -3].max()), self.loss_of(means))
