"""Records of a search between its strategy and the pool: candidates to train, under way, and done."""

from neuro_cli.core.errors import UserError
from neuro_cli.factory.instantiate import make
from neuro_cli.model.module_cnn import LAYERS
from neuro_cli.search.config import SearchConfig
from neuro_cli.strategy.base import Archive, Brood, Strategy
from neuro_cli.strategy.outcome import TrainingOutcome
from neuro_cli.strategy.space import Module, Space, text_of


class Engine:
    """Engine of a search; ``trainings``: candidates that are trained. Call :meth:`ask` at the start and after :meth:`tell`."""

    def __init__(self, strategy: Strategy, space: Space, seed: int, trainings: int) -> None:
        self.strategy, self.trainings = strategy, trainings
        self.archive = Archive()
        self.origins: dict[Module, str] = {}
        self.generations: dict[Module, int] = {}  # generation (0, 1, 2, ...) in which a module was first bred
        self._open: list[Brood] = []
        self._broods = 0
        self.exhausted = False  # every module of the space has been asked for
        strategy.begin(space, seed, self.archive)

    @property
    def under_way(self) -> list[Module]:
        """Modules that were asked for and have no outcome yet, in the order of the start."""
        return [module for module in self.archive.started if module not in self.archive.outcomes]

    @property
    def finished(self) -> bool:
        """True when all trainings of the search engine are done, or no module is left to train."""
        return not self._open and (self.exhausted or len(self.archive.started) >= self.trainings)

    def ask(self) -> list[Module]:
        """Return the modules that the search engine wants trained now; none while the strategy waits for outcomes."""
        fresh: list[Module] = []
        while not self.exhausted and len(self.archive.started) < self.trainings and self.strategy.ready(len(self.under_way)):
            brood = self.strategy.breed(self._broods)
            if brood is None:
                self.exhausted = True
            else:
                fresh += self._start(brood)
        if self.finished:
            self.strategy.conclude()
        return fresh

    def _start(self, brood: Brood) -> list[Module]:
        """Open ``brood``, without candidates beyond the last training."""
        self._broods += 1
        left = self.trainings - len(self.archive.started)
        fresh = [module for module in brood.modules if module not in self.archive.started][:left]
        for module in fresh:
            self.archive.started[module] = len(self.archive.started) + 1
            self.origins[module] = brood.origin
            self.generations[module] = self.strategy.generation
        brood.modules = [module for module in brood.modules if module in self.archive.started]
        self._open.append(brood)
        return fresh

    def tell(self, outcome: TrainingOutcome) -> None:
        """Tell the search engine a module's outcome. Raises UserError for one that was not asked for, or that has an outcome."""
        module = outcome.module
        if module not in self.archive.started or module in self.archive.outcomes:
            raise UserError(f"module {text_of(module)}: this search has not asked for it; is the checkpoint of another version?")
        self.archive.outcomes[module] = outcome
        still: list[Brood] = []
        for brood in self._open:
            if all(one in self.archive.outcomes for one in brood.modules):
                self.strategy.hatched(brood)
            else:
                still.append(brood)
        self._open = still

    def best(self, count: int) -> list[TrainingOutcome]:
        """Return the ``count`` fittest of all trained candidates, the fittest first."""
        trained = [outcome for outcome in self.archive.outcomes.values() if outcome.fitness is not None]
        return sorted(trained, key=lambda one: one.rank, reverse=True)[:count]


def engine_of(search: SearchConfig) -> Engine:
    """Make the engine of a search that begins. Raises UserError."""
    return Engine(make(search.plain, "strategy", Strategy), space_of(search), search.seed, search.trainings)


def space_of(search: SearchConfig) -> Space:
    """Return the space of the modules that a search may try."""
    return Space(tuple(search.layers or LAYERS), search.max_layers)
