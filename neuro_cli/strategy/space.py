"""Space of modules, with append mutation and crossover.

A module is a tuple of names of layers; the caller passes the generator of every random choice.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

Module = tuple[str, ...]

SPLIT, UNIFORM = "split", "uniform"
CROSSOVERS = (SPLIT, UNIFORM)

DRAWS = 1000  # random modules to try before the space is searched from its beginning


def text_of(module: Module) -> str:
    """Write a module of the space on one line."""
    return " ".join(module)


@dataclass(frozen=True)
class Space:
    """Space of all modules of 1 to ``longest`` of the ``layers``."""

    layers: Sequence[str]
    longest: int

    def __len__(self) -> int:
        return sum(len(self.layers) ** length for length in range(1, self.longest + 1))

    def random(self, rng: np.random.Generator, longest: int) -> Module:
        """Draw a module of the space with a length that is uniform from 1 to ``longest``, and uniform layers."""
        return tuple(self._layer(rng) for _ in range(int(rng.integers(1, longest + 1))))

    def fresh(self, rng: np.random.Generator, started: Container[Module], longest: int) -> Module | None:
        """Draw a module of up to ``longest`` layers that was not ``started``.

        Where no draw finds one: the shortest that was not started, also above ``longest``. None: all of the space were.
        """
        for _ in range(DRAWS):
            module = self.random(rng, longest)
            if module not in started:
                return module
        every = chain.from_iterable(product(self.layers, repeat=length) for length in range(1, self.longest + 1))
        return next((module for module in every if module not in started), None)

    def mutated(self, module: Module, rng: np.random.Generator, probability: float) -> Module:
        """Append a random layer of the space, by ``probability``; a module with the most layers stays as it is."""
        if rng.random() < probability and len(module) < self.longest:
            return (*module, self._layer(rng))
        return module

    def offspring(
        self, first: Module, second: Module, rng: np.random.Generator, probability: float, crossover: str = SPLIT
    ) -> list[Module]:
        """Breed the candidates for one offspring from two parents (Algorithm 1). Once trained, the fitter becomes the offspring.

        Parents of equal length are crossed, and the first of the two new modules is mutated by ``probability``. Parents of
        different lengths are both mutated.
        """
        if len(first) != len(second):
            return [self.mutated(first, rng, probability), self.mutated(second, rng, probability)]
        if crossover == UNIFORM:
            return [self.mutated(crossed_uniformly(first, second, rng), rng, probability)]
        return [self.mutated(crossed(first, second, rng, self.longest)[0], rng, probability)]

    def _layer(self, rng: np.random.Generator) -> str:
        return str(self.layers[int(rng.integers(len(self.layers)))])


def crossed(first: Module, second: Module, rng: np.random.Generator, longest: int) -> tuple[Module, Module]:
    """Split two modules of equal length at one random position each, and recombine the parts into two new modules.

    The first one begins as ``first`` does. No part is empty, and the second position is such that neither new module has more
    than ``longest`` layers. Modules of one layer cannot be split and are returned unchanged.
    """
    length = len(first)
    if length < 2:
        return first, second
    slack = longest - length  # layers that a new module may have more than its parents
    cut = int(rng.integers(1, length))
    other = int(rng.integers(max(1, cut - slack), min(length - 1, cut + slack) + 1))
    return first[:cut] + second[other:], second[:other] + first[cut:]


def crossed_uniformly(first: Module, second: Module, rng: np.random.Generator) -> Module:
    """Return a module with each layer from the same place of either parent, with equal probability."""
    from_first = rng.random(len(first)) < 0.5
    return tuple(a if chosen else b for a, b, chosen in zip(first, second, from_first, strict=True))
