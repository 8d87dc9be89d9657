"""Contract of a search strategy: which modules are trained next.

A strategy is a function of its settings, the seed, and the outcomes in the order in which it was told of them. It keeps nothing
else, so a search that was killed goes on by telling it the saved outcomes again.
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
    """Candidates for one place: when all are trained, the fittest has it. ``number``: counted over the whole search."""

    number: int
    modules: list[Module]
    origin: str  # random | crossover | mutation


@dataclass
class Archive:
    """``started``: every module that is or was trained, with its number; ``outcomes``: of those that are done."""

    started: dict[Module, int] = field(default_factory=dict)
    outcomes: dict[Module, TrainingOutcome] = field(default_factory=dict)

    def fittest(self, modules: list[Module]) -> TrainingOutcome | None:
        """Return the fittest of those that are trained and did not fail."""
        trained = (self.outcomes[module] for module in modules if module in self.outcomes)
        return max((outcome for outcome in trained if outcome.fitness is not None), key=lambda one: one.rank, default=None)


class Strategy(ABC):
    """``population``: candidates of a generation, >= 2. ``members``: the present population, the fittest first."""

    def __init__(self, population: int) -> None:
        self.population = integer("strategy.population", population, 2)
        self.members: list[TrainingOutcome] = []
        self.generation = 0  # whole ones

    def begin(self, space: Space, seed: int, archive: Archive) -> None:
        """Bind to the space, and to the archive that the search keeps. Raises ConfigError."""
        if self.population > len(space):
            allowed = f"there are {len(space)} modules of up to {space.longest} layers"
            raise ConfigError("strategy.population", self.population, allowed)
        self.space, self.archive, self._seed = space, archive, seed

    def random_numbers(self, number: int, attempt: int = 0) -> np.random.Generator:
        """Generator of a brood, by (seed, brood, attempt): no stream with a position that matters."""
        return numbers_of(self._seed, number, attempt)

    @abstractmethod
    def ready(self, under_way: int) -> bool:
        """Decide if a brood can be bred now, while ``under_way`` candidates are being trained."""

    @abstractmethod
    def breed(self, number: int) -> Brood | None:
        """Brood ``number``, with a module in it that was not started yet. None when there is no such module left."""

    @abstractmethod
    def hatched(self, brood: Brood) -> None:
        """Take a brood with the outcomes of all its candidates in the archive."""

    def conclude(self) -> None:  # noqa: B027 (only generations can be cut short)
        """Note that the last brood has hatched: no other will be bred."""

    def keep_fittest(self, outcomes: list[TrainingOutcome]) -> None:
        """Let the fittest of ``outcomes`` be the population: different ones, none that failed."""
        different = {outcome.module: outcome for outcome in outcomes if outcome.fitness is not None}
        self.members = sorted(different.values(), key=lambda one: one.rank, reverse=True)[: self.population]
