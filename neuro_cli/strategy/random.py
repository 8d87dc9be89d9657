"""Random search, the baseline: every candidate is a random module. Generations are counted for comparison only."""

from neuro_cli.core.checks import integer
from neuro_cli.strategy.base import Brood, Strategy


class RandomSearch(Strategy):
    """``outstanding``: candidates that are in training or waiting at a time."""

    def __init__(self, population: int, outstanding: int) -> None:
        super().__init__(population)
        self.outstanding = integer("strategy.outstanding", outstanding, 1)
        self._hatched = 0

    def ready(self, under_way: int) -> bool:
        return under_way < self.outstanding

    def breed(self, number: int) -> Brood | None:
        module = self.space.fresh(self.random_numbers(number), self.archive.started, self.space.longest)
        return None if module is None else Brood(number, [module], "random")

    def hatched(self, brood: Brood) -> None:
        winner = self.archive.fittest(brood.modules)
        if winner is not None:
            self.keep_fittest([*self.members, winner])
        self._hatched += 1
        self.generation = self._hatched // self.population
