"""Interface of search strategies, which choose the modules that are trained next.

A strategy is a function of its settings, the seed, and the outcomes in the order in which it receives them. It keeps nothing
else, so that a search that was killed resumes by passing it the saved outcomes again.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.seeds import numbers_of
from neuro_cli.strategy.outcome import TrainingOutcome
from neuro_cli.strategy.space import Module, Space


@dataclass
class Brood:
    """Candidates for one place: when all are trained, the fittest takes it. ``number``: counted over the search."""

    number: int
    modules: list[Module]
    origin: str  # random | crossover | mutation


@dataclass
class Archive:
    """Archive of a search; ``started``: every module whose training began, with its number; ``outcomes`` of finished ones."""

    started: dict[Module, int] = field(default_factory=dict)
    outcomes: dict[Module, TrainingOutcome] = field(default_factory=dict)

    def fittest(self, modules: list[Module]) -> TrainingOutcome | None:
        """Return the fittest of those that are trained and did not fail."""
        trained = (self.outcomes[module] for module in modules if module in self.outcomes)
        return max((outcome for outcome in trained if outcome.fitness is not None), key=lambda one: one.rank, default=None)


class Strategy(ABC):
    """Strategy of a search; ``population``: candidates of a generation, >= 2. ``members``: the present ones, fittest first.

    ``outstanding``: candidates that are in training or waiting at a time. As many broods are bred, each fittest candidate may
    enter the population at once, and generations are counted for comparison only. A strategy of real generations has None, and
    overrides ``ready`` and ``hatched``.
    """

    def __init__(self, population: int, outstanding: int | None) -> None:
        self.population = integer("strategy.population", population, 2)
        self.outstanding = 0 if outstanding is None else integer("strategy.outstanding", outstanding, 1)
        self.members: list[TrainingOutcome] = []
        self.generation = 0  # number of complete generations
        self._hatched = 0

    def begin(self, space: Space, seed: int, archive: Archive) -> None:
        """Bind the strategy to the space, and to the archive that the search keeps. Raises ConfigError."""
        if self.population > len(space):
            allowed = f"there are {len(space)} modules of up to {space.longest} layers"
            raise ConfigError("strategy.population", self.population, allowed)
        self.space, self.archive, self._seed = space, archive, seed

    def random_numbers(self, number: int, attempt: int = 0) -> np.random.Generator:
        """Return the random generator of (seed, brood, attempt), which does not depend on earlier draws."""
        return numbers_of(self._seed, number, attempt)

    def ready(self, under_way: int) -> bool:
        """Return whether a brood can be bred now, while ``under_way`` candidates are being trained."""
        return under_way < self.outstanding

    @abstractmethod
    def breed(self, number: int) -> Brood | None:
        """Breed brood ``number`` with a module that was not started yet; return None when no such module is left."""

    def hatched(self, brood: Brood) -> None:
        """Take a brood whose candidates all have their outcomes in the archive."""
        winner = self.archive.fittest(brood.modules)
        if winner is not None:
            self.keep_fittest([*self.members, winner])
        self._hatched += 1
        self.generation = self._hatched // self.population

    def conclude(self) -> None:  # noqa: B027 (only generations can be cut short)
        """Finish the strategy after the last brood has hatched: no other will be bred."""

    def keep_fittest(self, outcomes: list[TrainingOutcome]) -> None:
        """Make the fittest of ``outcomes`` the population: different modules, none that failed."""
        different = {outcome.module: outcome for outcome in outcomes if outcome.fitness is not None}
        self.members = sorted(different.values(), key=lambda one: one.rank, reverse=True)[: self.population]
