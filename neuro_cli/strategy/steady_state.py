"""Evolution without generations: when a brood has hatched, its fittest may enter the population, and the next is bred.

No worker waits for the slowest of a generation, but the outcome depends on the order in which results arrive.
"""

from neuro_cli.core.checks import integer
from neuro_cli.strategy.base import Brood
from neuro_cli.strategy.evolution import EvolutionaryStrategy
from neuro_cli.strategy.space import UNIFORM


class SteadyState(EvolutionaryStrategy):
    """``outstanding``: candidates that are in training or waiting at a time; the number of workers keeps all of them busy."""

    def __init__(
        self,
        population: int,
        mutation: float,
        tournament: int,
        initial_layers: int,
        outstanding: int,
        crossover: str = UNIFORM,
    ) -> None:
        super().__init__(population, mutation, tournament, initial_layers, crossover)
        self.outstanding = integer("strategy.outstanding", outstanding, 1)
        self._hatched = 0

    def ready(self, under_way: int) -> bool:
        return under_way < self.outstanding

    def hatched(self, brood: Brood) -> None:
        winner = self.archive.fittest(brood.modules)
        if winner is not None:
            self.keep_fittest([*self.members, winner])
        self._hatched += 1
        self.generation = self._hatched // self.population
