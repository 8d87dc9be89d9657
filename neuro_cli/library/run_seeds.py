"""One search for several seeds, in lockstep: one call of a function answers for the candidates of all of them.

Legend: K candidates, M parameters.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.library.ask_tell import AskTell

log = logging.getLogger(__name__)

Function = Callable[[np.ndarray], Any]


def run_seeds(function: Function, seeds: Iterable[int], start: Any, **options: Any) -> list[AskTell]:
    """Run an :class:`AskTell` for each of the ``seeds`` until all have stopped; each has the bits of a run alone.

    ``function`` takes candidates (K, M) and returns their fitnesses (K,). Candidates of all seeds share its calls while it
    gives each the same bits as in a call of its seed alone, which is compared whenever their numbers change; else a warning says
    so, and it is called seed by seed. ``start`` and ``options``: as for :class:`AskTell`. Every rank calls this. Raises
    ConfigError, and UserError where ``function`` gives another number of fitnesses.
    """
    given = list(seeds)
    if not given or len({*given}) < len(given):
        raise ConfigError("seeds", given, "must be one or more different integers")
    searches = [AskTell(start, seed=seed, **options) for seed in given]
    calls = SharedCalls(function)
    while running := [search for search in searches if not search.stopped]:
        for search, fitnesses in zip(running, calls([search.ask() for search in running]), strict=True):
            search.tell(fitnesses)
    return searches


class SharedCalls:
    """Calls of ``function`` that several searches share. ``apart``: whether each has calls of its own."""

    def __init__(self, function: Function) -> None:
        self._function, self.apart = function, False
        self._compared: set[tuple[int, ...]] = set()  # numbers of candidates whose shared call has the bits of single ones

    def __call__(self, parts: list[np.ndarray]) -> list[np.ndarray]:
        """Return the fitnesses of the candidates (K, M) of each search. Raises UserError."""
        sizes = tuple(map(len, parts))
        if self.apart or len(parts) == 1:
            return [self._fitnesses(part) for part in parts]
        together = np.split(self._fitnesses(np.concatenate(parts)), np.cumsum(sizes)[:-1])
        if sizes in self._compared:
            return together
        alone = [self._fitnesses(part) for part in parts]
        self.apart = not all(map(np.array_equal, together, alone))
        if self.apart:
            log.warning(
                "the function gives a candidate other bits in a call with those of other seeds: it is called seed by seed"
            )
        self._compared.add(sizes)
        return alone

    def _fitnesses(self, candidates: np.ndarray) -> np.ndarray:
        found = np.asarray(self._function(candidates), np.float64)
        if found.shape != (len(candidates),):
            raise UserError(f"run_seeds: the function gives {found.shape} fitnesses for {len(candidates)} candidates")
        return found
