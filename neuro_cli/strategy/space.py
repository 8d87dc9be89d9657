"""Space of modules, and how modules come from others: append mutation and crossover.

A module is a tuple of names of layers; every random choice comes from the generator that the caller hands in.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

Module = tuple[str, ...]

DRAWS = 1000  # random modules that are tried before the space is searched from its beginning


def text_of(module: Module) -> str:
    """Write the module on one line."""
    return " ".join(module)


@dataclass(frozen=True)
class Space:
    """All modules of 1 to ``longest`` of the ``layers``."""

    layers: Sequence[str]
    longest: int

    def __len__(self) -> int:
        return sum(len(self.layers) ** length for length in range(1, self.longest + 1))

    def random(self, rng: np.random.Generator, longest: int) -> Module:
        """Draw a module with a length that is uniform from 1 to ``longest``, and uniform layers."""
        return tuple(self._layer(rng) for _ in range(int(rng.integers(1, longest + 1))))

    def fresh(self, rng: np.random.Generator, known: Container[Module], longest: int) -> Module | None:
        """Draw a module of up to ``longest`` layers that is not ``known``, or any that is not; None when all are."""
        for _ in range(DRAWS):
            module = self.random(rng, longest)
            if module not in known:
                return module
        every = chain.from_iterable(product(self.layers, repeat=length) for length in range(1, self.longest + 1))
        return next((module for module in every if module not in known), None)

    def mutated(self, module: Module, rng: np.random.Generator, probability: float) -> Module:
        """Append a random layer, by ``probability``; a module with the most layers stays as it is."""
        if rng.random() < probability and len(module) < self.longest:
            return (*module, self._layer(rng))
        return module

    def offspring(self, first: Module, second: Module, rng: np.random.Generator, probability: float) -> list[Module]:
        """Cross two parents (Algorithm 1) into the candidates for one offspring: the fitter of them, once trained, is it.

        Parents of one length are crossed, and the child mutated by ``probability``. Others cannot be crossed position by
        position: both are mutated.
        """
        if len(first) == len(second):
            return [self.mutated(crossed(first, second, rng), rng, probability)]
        return [self.mutated(first, rng, probability), self.mutated(second, rng, probability)]

    def _layer(self, rng: np.random.Generator) -> str:
        return str(self.layers[int(rng.integers(len(self.layers)))])


def crossed(first: Module, second: Module, rng: np.random.Generator) -> Module:
    """Two modules of one length crossed at random positions: each layer is that of either parent, by even chances."""
    from_first = rng.random(len(first)) < 0.5
    return tuple(a if chosen else b for a, b, chosen in zip(first, second, from_first, strict=True))
