"""Genetic algorithm with truncation selection and mutation only; an individual is its chain of mutation addresses.

Such, Madhavan, Conti, Lehman, Stanley, Clune, "Deep neuroevolution: genetic algorithms are a competitive alternative for
training deep neural networks for reinforcement learning", 2017, algorithm 1 and section 3.1 (seed chains).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import NON_FINITE, Combination, PopulationAlgorithm, Proposal, State
from neuro_cli.algo.step_size.layer_factors import SIGMA, Layers
from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.noise import CHOICE_STREAM, random_words
from neuro_cli.core.schedule import CONSTANT, Schedule

Chain = tuple[tuple[int, int], ...]  # (generation, member) for every mutation since the initial centre


class Genetic(PopulationAlgorithm):
    """Truncation selection: the best ``parents`` members are the next generation's parents; member 0 is the best, unchanged.

    ``parents`` from 1 to below the population. ``sigma`` > 0: standard deviation of a mutation; ``sigma_schedule``: factor on it
    by generation. ``layers``: factors on sigma by pattern of parameter names. Ties are broken at random. Memory: T + K vectors
    of M, T = K = ``parents``. Raises ConfigError.
    """

    sums_add_up = False  # each row is a member, a different one in each generation
    still = True

    def __init__(
        self,
        sigma: float = 0.01,
        parents: int = 10,
        sigma_schedule: Schedule = CONSTANT,
        non_finite: str = "raise",
        layers: Mapping[str, Any] | None = None,
    ) -> None:
        self.non_finite = one_of("algo.non_finite", non_finite, NON_FINITE)
        self.sigma = number("algo.sigma", sigma, above=0.0)
        self.parents = integer("algo.parents", parents, 1)
        self._schedule = sigma_schedule
        self._layers = Layers(layers, (SIGMA,))

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        if self.parents >= population:
            raise ConfigError("algo.parents", self.parents, f"must be below population={population}")
        self._layers.start(layout)
        self._population, self._seed = population, seed
        self._bases = centre.clone()[None]
        self._chains: list[Chain] = [()]

    @property
    def centre(self) -> Tensor:
        return self._bases[0]

    @property
    def chains(self) -> list[Chain]:
        """Mutations that lead from the initial centre to each parent, best first."""
        return self._chains

    def sigma_at(self, generation: int) -> float:
        return max(self.sigma * self._schedule.factor(generation), 1e-12)

    def parent_of(self, generation: int) -> np.ndarray:
        """Draw the parent index of every member (P,) from (seed, generation), uniformly; member 0 has the best parent."""
        words = random_words(self._seed, generation, 0, CHOICE_STREAM, self._population).astype(np.uint64)
        parent = ((words * np.uint64(len(self._chains))) >> np.uint64(32)).astype(np.int64)
        parent[0] = 0
        return parent

    @property
    def needs_parameters(self) -> str | None:
        return "takes members as the next parents"

    def ask(self, generation: int) -> Proposal:
        self._parent = self.parent_of(generation)
        scale, layers = self._layers.scale(self.sigma_at(generation), self._bases.device)
        return Proposal(self._bases, self._parent, scale, frozenset([0]), layers)

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        # ties: the previous best stays first, and the others' order is random, so that no side of a pair is preferred
        lots = random_words(self._seed, generation, 1, CHOICE_STREAM, len(fitness)).astype(np.int64)
        lots[0] = -1
        self._chosen = np.lexsort((lots, -fitness))[: self.parents]
        weights = np.zeros((len(self._chosen), len(fitness)))
        for row, member in enumerate(self._chosen):
            weights[row, member] = 0.0 if member == 0 else 1.0
        return Combination(weights, (1,) * len(self._chosen))

    def tell(self, generation: int, sums: Tensor) -> None:
        scale, _ = self._layers.scale(self.sigma_at(generation), sums.device)
        parents = [int(self._parent[member]) for member in self._chosen]
        self._bases = torch.stack([self._bases[p] + scale * row for p, row in zip(parents, sums, strict=True)])
        mutations = [() if member == 0 else ((generation, int(member)),) for member in self._chosen]
        self._chains = [self._chains[p] + link for p, link in zip(parents, mutations, strict=True)]

    def can_shape_parts(self) -> bool:
        return False

    def state(self) -> State:
        return State({"bases": self._bases.clone()}, {"chains": [list(map(list, chain)) for chain in self._chains]})

    def restore(self, state: State) -> None:
        self._bases = state.tensors["bases"].clone()
        self._chains = [tuple((int(g), int(m)) for g, m in chain) for chain in state.scalars["chains"]]
