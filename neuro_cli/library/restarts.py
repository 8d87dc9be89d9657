"""Restarts of ask and tell with larger populations: IPOP and BIPOP, as in pycma's fmin2.

Auger, Hansen, "A restart CMA evolution strategy with increasing population size", CEC 2005; Hansen, "Benchmarking a
BI-population CMA-ES on the BBOB-2009 function testbed", GECCO 2009.
"""

from dataclasses import dataclass

from neuro_cli.core.seeds import numbers_of

NONE, IPOP, BIPOP = "none", "ipop", "bipop"
RESTART, START = 0xB1, 0xB2  # addresses of random numbers


@dataclass
class Restarts:
    """Restarts, a plan of runs: population and step size of the next one, from the evaluations of those before.

    ``first``: population of the first run. ``small`` and ``large``: evaluations of BIPOP's two regimes.
    """

    kind: str
    first: int
    seed: int
    doublings: int = 0
    runs: int = 0
    small: int = 0
    large: int = 0
    is_small: bool = True

    def ended(self, evaluations: int) -> None:
        """Take the evaluations of the run that ended before a restart."""
        self.runs += 1
        if self.is_small:
            self.small += evaluations
        else:
            self.large += evaluations

    def plan(self) -> tuple[int, float, int | None]:
        """Return the next run's population, factor on the step size, and most evaluations; the population grows."""
        if self.kind == BIPOP and self.small < self.large:
            self.is_small = True
            lots = numbers_of(self.seed, RESTART, self.runs).random(2)
            return int(self.first * 2 ** (self.doublings * lots[1] ** 2)), 0.01 ** lots[0], max(1, self.large // 2)
        self.is_small = False
        self.doublings += 1
        return self.first * 2**self.doublings, 1.0, None
