"""RandOpt: random members around a pretrained centre; the best of them vote; nothing moves.

Gan, Isola, "Neural thickets: diverse task experts are dense around pretrained weights", ICML 2026, arXiv:2603.12228, and its
code: N perturbations, each by one of a list of sigmas, on the same training examples; the K best give answers, and the most
frequent one counts. The code draws each member's sigma; here a generation has one, in turn.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import NON_FINITE, Combination, PopulationAlgorithm, Proposal, State
from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout


class Voter(NamedTuple):
    """Voter of a random vote: address of a member, 8 bytes, and its fitness."""

    generation: int
    member: int
    fitness: float


class RandomVote(PopulationAlgorithm):
    """Keeps the ``keep`` best members of all generations; the centre stays.

    ``sigma`` > 0: standard deviation of the perturbations, or a list of them, which generations take in turn. Memory: the
    centre, and 8 bytes a voter. Raises ConfigError.
    """

    votes = still = True

    def __init__(self, sigma: float | Sequence[float] = 0.001, keep: int = 50, non_finite: str = "raise") -> None:
        self.non_finite = one_of("algo.non_finite", non_finite, NON_FINITE)
        given = [sigma] if isinstance(sigma, int | float | str) else list(sigma)
        if not given:
            raise ConfigError("algo.sigma", sigma, "must be a number > 0, or a list of some")
        self.sigmas = [number("algo.sigma", each, above=0.0) for each in given]
        self.keep = integer("algo.keep", keep, 1)
        self.voters: list[Voter] = []

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        self._centre, self.voters = centre, []

    @property
    def centre(self) -> Tensor:
        return self._centre

    @property
    def needs_parameters(self) -> str | None:
        return "keeps members as networks"

    def sigma_at(self, generation: int) -> float:
        return self.sigmas[generation % len(self.sigmas)]

    def ask(self, generation: int) -> Proposal:
        return Proposal.around(self._centre, self.sigma_at(generation))

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        self._scored = [Voter(generation, member, float(value)) for member, value in enumerate(fitness)]
        return Combination(np.zeros((1, len(fitness))), (1,))

    def tell(self, generation: int, sums: Tensor) -> None:
        """Choose among the members of before and of this generation; ``sums`` may have any number of rows."""
        every = [*self.voters, *self._scored]
        self.voters = sorted(every, key=lambda voter: -voter.fitness)[: self.keep]  # stable: the earlier first

    def can_shape_parts(self) -> bool:
        return False

    def state(self) -> State:
        addresses = np.array([voter[:2] for voter in self.voters], np.uint32).reshape(-1, 2)
        fitness = torch.tensor([voter.fitness for voter in self.voters], dtype=torch.float64)
        return State({"centre": self._centre.clone(), "addresses": torch.from_numpy(addresses), "fitness": fitness})

    def restore(self, state: State) -> None:
        self._centre.copy_(state.tensors["centre"])
        addresses, fitness = state.tensors["addresses"].cpu().numpy(), state.tensors["fitness"].tolist()
        self.voters = [Voter(int(row[0]), int(row[1]), value) for row, value in zip(addresses, fitness, strict=True)]
