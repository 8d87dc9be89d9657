"""Base of the evolutionary strategies, which breed a brood from the present population."""

import numpy as np

from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.strategy.base import Archive, Brood, Strategy
from neuro_cli.strategy.space import CROSSOVERS, UNIFORM, Module, Space

ATTEMPTS = 20  # attempts to breed a module that was not trained before; then a random one takes the place


class EvolutionaryStrategy(Strategy):
    """Evolution of modules; ``mutation``: probability that a layer is appended. ``tournament``: members that compete as parents.

    ``initial_layers``: most layers of a module of the first broods. ``crossover``: split (the published one) or uniform; saved
    configs without the key mean uniform.
    """

    def __init__(
        self,
        population: int,
        mutation: float,
        tournament: int,
        initial_layers: int,
        outstanding: int | None = None,
        crossover: str = UNIFORM,
    ) -> None:
        super().__init__(population, outstanding)
        self.mutation = number("strategy.mutation", mutation, low=0.0, high=1.0)
        self.tournament = integer("strategy.tournament", tournament, 1, population)
        self.initial_layers = integer("strategy.initial_layers", initial_layers, 1)
        self.crossover = one_of("strategy.crossover", crossover, CROSSOVERS)

    def begin(self, space: Space, seed: int, archive: Archive) -> None:
        super().begin(space, seed, archive)
        if self.initial_layers > space.longest:
            raise ConfigError("strategy.initial_layers", self.initial_layers, f"must be <= max_layers={space.longest}")

    def breed(self, number: int) -> Brood | None:
        if number < self.population or len(self.members) < 2:
            return self._random(number, self.initial_layers)
        for attempt in range(ATTEMPTS):
            rng = self.random_numbers(number, attempt)
            first, second = self._parents(rng)
            modules = list(dict.fromkeys(self.space.offspring(first, second, rng, self.mutation, self.crossover)))
            if any(module not in self.archive.started for module in modules):
                return Brood(number, modules, "crossover" if len(first) == len(second) else "mutation")
        return self._random(number, self.space.longest)

    def _random(self, number: int, longest: int) -> Brood | None:
        module = self.space.fresh(self.random_numbers(number, ATTEMPTS), self.archive.started, longest)
        return None if module is None else Brood(number, [module], "random")

    def _parents(self, rng: np.random.Generator) -> tuple[Module, Module]:
        """Draw two different members, each the fittest of a tournament."""
        places = range(len(self.members))
        first = self._winner(rng, list(places))
        second = self._winner(rng, [place for place in places if place != first])
        return self.members[first].module, self.members[second].module

    def _winner(self, rng: np.random.Generator, places: list[int]) -> int:
        # members are in the order of their fitness
        return int(min(rng.choice(places, size=min(self.tournament, len(places)), replace=False)))
