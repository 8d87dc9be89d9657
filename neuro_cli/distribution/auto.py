"""Chooses the distribution method with the shortest expected update on this world, and logs why.

Scoring is the same for all candidates. They differ in a rank's work for the sums, which is timed in a simulated world
(:mod:`neuro_cli.fabric.simulated`), and in the collectives, which the network's cost model prices. The candidates give
the same centre in the same bits, so the choice, which may differ from run to run, changes no result.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from neuro_cli.algo.base import Combination
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.base import Distribution, PopulationContext
from neuro_cli.distribution.data_parallel import DataParallel
from neuro_cli.distribution.local import Local
from neuro_cli.fabric.cost import CostModel
from neuro_cli.fabric.measure import measured_cost
from neuro_cli.fabric.simulated import SimulatedWorld

log = logging.getLogger(__name__)

REPEATS, ENOUGH = 3, 0.02  # most repetitions, whose fastest counts, and seconds after which no other begins
SAMPLE = 32  # members that an estimate sums; the work is proportional to their number


@dataclass(frozen=True)
class Estimate:
    """Seconds per generation without scoring: work of the slowest rank, and collectives."""

    work: float
    wire: float

    @property
    def seconds(self) -> float:
        return self.work + self.wire


class Auto(Distribution):
    """Method with the shortest expected update on these ranks, of ``candidates`` by name.

    One rank needs no choice, and algo=sgd has data_parallel only. Raises ConfigError for a candidate that rounds what it sends.
    """

    name = "auto"
    needs_mpi = False

    def __init__(self, candidates: Mapping[str, Distribution]) -> None:
        for name, candidate in candidates.items():
            if not isinstance(candidate, Distribution):
                raise ConfigError(f"distribution.candidates.{name}", candidate, "must be a distribution method")
            wire = getattr(candidate, "wire", "float32")
            if wire != "float32":
                raise ConfigError(
                    f"distribution.candidates.{name}.wire", wire, "must be float32, or the choice would change a run"
                )
        if not candidates:
            raise ConfigError("distribution.candidates", {}, "must hold a distribution method")
        self._candidates = dict(candidates)

    def settled(self, job: PopulationContext) -> Distribution:
        """Choose a method, bind it to the parts of the run and return it."""
        return self._choose(job).settled(job)

    def _choose(self, job: PopulationContext) -> Distribution:
        if job.world.size == 1:
            return Local()
        if job.algo.uses_gradient:
            log.info("distribution=auto: data_parallel, the only one for an algorithm without a population")
            return DataParallel()
        cost = job.world.cost or measured_cost(job.world)
        estimates = {name: estimate(candidate, job, cost) for name, candidate in self._candidates.items()}
        best = min(estimates, key=lambda name: estimates[name].seconds)
        times = ", ".join(f"{name} {e.seconds * 1e3:.1f} ms ({e.wire * 1e3:.1f} on the wire)" for name, e in estimates.items())
        log.info("distribution=auto: %s; expected time of a generation apart from scoring: %s", best, times)
        return self._candidates[best]

    def combine(self, generation: int, combination: Combination, start: int = 0, stop: int | None = None) -> Tensor:
        raise AssertionError("the method that settled() returned sums up")


def estimate(candidate: Distribution, job: PopulationContext, cost: CostModel) -> Estimate:
    """Estimate the seconds of ``candidate`` for the sums of a generation. A collective call; the same on every rank."""
    sampled = min(job.population, max(SAMPLE, job.world.size + job.world.size % 2))  # even: no pair is split
    pretend = SimulatedWorld(job.world.size, job.world.rank)
    candidate.bind(replace(job, world=pretend, population=sampled))
    algo = candidate.algo
    algo.ask(0)
    # an algorithm may rely on the number of members, so that all get a weight; the sampled first ones are the fittest
    everyone = algo.combination(0, np.linspace(0.0, -1.0, job.population))
    combination = Combination(everyone.weights[:, :sampled], everyone.moments)
    seconds: list[float] = []
    while len(seconds) <= REPEATS and sum(seconds[1:]) < ENOUGH:  # the first call compiles and warms up
        pretend.noted.clear()
        start = time.perf_counter()
        for low, high in candidate.spans():
            candidate.combine(0, combination, low, high)
        if not candidate.spans():
            candidate.combine(0, combination)
        seconds.append(time.perf_counter() - start)
    work = job.world.all_gather(np.array([min(seconds[1:])]), [1] * job.world.size).max() * job.population / sampled
    job.clock.take()
    return Estimate(float(work), sum(cost.seconds(noted.call, job.world.size) for noted in pretend.noted))
