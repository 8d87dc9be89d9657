"""Evolution by generations: all broods of a generation come from one population, and the fittest of parents and offspring stay.

The outcome is a function of config and seed alone, whoever trains a candidate, and in whatever order results arrive.
"""

from neuro_cli.strategy.base import Brood
from neuro_cli.strategy.evolution import EvolutionaryStrategy
from neuro_cli.strategy.outcome import TrainingOutcome
from neuro_cli.strategy.space import UNIFORM


class Generational(EvolutionaryStrategy):
    def __init__(self, population: int, mutation: float, tournament: int, initial_layers: int, crossover: str = UNIFORM) -> None:
        super().__init__(population, mutation, tournament, initial_layers, None, crossover)
        self._offspring: list[TrainingOutcome] = []
        self._bred = 0  # broods of the present generation, as is _hatched

    def ready(self, under_way: int) -> bool:
        return self._bred < self.population

    def breed(self, number: int) -> Brood | None:
        brood = super().breed(number)
        self._bred += brood is not None
        return brood

    def hatched(self, brood: Brood) -> None:
        winner = self.archive.fittest(brood.modules)
        self._offspring += [winner] if winner is not None else []
        self._hatched += 1
        if self._hatched == self.population:
            self._select()

    def conclude(self) -> None:
        if self._hatched:
            self._select()

    def _select(self) -> None:
        self.keep_fittest([*self.members, *self._offspring])
        self._offspring, self._bred, self._hatched = [], 0, 0
        self.generation += 1
