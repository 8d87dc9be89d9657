"""sep-CMA-ES: evolution strategy with covariance matrix adaptation of a diagonal, linear in the parameters.

Ros, Hansen, "A simple modification in CMA-ES achieving linear time and space complexity", PPSN X, 2008, as pycma 4.5 has it
(``CMA_diagonal``): rates of about 1 / M, negative weights for the worse half, and a diagonal that is multiplied by exponentials.
"""

import math

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, Proposal
from neuro_cli.algo.centre.formula import OwnCentre
from neuro_cli.algo.covariance.cma_weights import damping_of, expected_length, mass_of, raw_weights, with_negative
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.shaping import by_rank, is_flat


class SepCMAES(OwnCentre):
    """Moves the centre to the weighted mean of the better half; a step size and a variance of every parameter follow.

    ``sigma`` > 0: initial step size. ``layers``: factors on the initial sigma by pattern of parameter names. Raises ConfigError.
    """

    sums_add_up = False  # squares of noise become variances, which a late correction would make negative

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        if population < 4:
            raise ConfigError("population", population, "algo=sep_cma_es takes the mean of the better half: at least 4")
        spread, self._size = self._begin(centre, layout), self.sigma
        self._variance = torch.ones_like(centre) if spread is None else spread.square()
        self._step_path, self._path = torch.zeros_like(centre), torch.zeros_like(centre)
        self._constants(layout.size, population)

    def _constants(self, columns: int, population: int) -> None:
        n, weights = columns, raw_weights(population)
        mass = mass_of(weights[weights > 0])
        self._mass, self._step_rate = mass, min(0.5, (mass + 2) / (n + mass + 3))
        self._damping = damping_of(n, mass, self._step_rate)
        self._path_rate = (1 + 1 / n + mass / n) / (math.sqrt(n) + 1 / n + 2 * mass / n)
        one = 1 / (n + 2 * math.sqrt(n) + mass / n)
        many = min(1 - one, (0.25 + mass + 1 / mass - 2) / (n + 4 * math.sqrt(n) + mass / 2))
        ranked = with_negative(weights, one, many)[::-1]  # worst first
        self._ranked = np.array([np.maximum(ranked, 0.0), ranked])
        faster = math.log(2)  # a square of 2 then doubles a variance, as in a sum
        self._rank_one, self._rank_many, self._length = faster * one, faster * many, expected_length(n)

    @property
    def needs_parameters(self) -> str | None:
        return "learns a step size of each parameter from the squares of its noise"

    def ask(self, generation: int) -> Proposal:
        return Proposal.around(self._centre, self._size * self._variance.sqrt())

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        self._flat = is_flat(fitness)
        return Combination(by_rank(fitness, self._ranked), (1, 2))

    def can_shape_parts(self) -> bool:
        return False  # the better half is one of the whole population

    def tell(self, generation: int, sums: Tensor) -> None:
        if self._flat:
            return  # ties: weights for all members would still move the centre by the members' mean
        mean, squares, n = sums[0], sums[1], self._centre.numel()
        self._centre.addcmul_(self._variance.sqrt(), mean, value=self._size)
        rate, along = self._step_rate, self._path_rate
        self._step_path.mul_(1 - rate).add_(mean, alpha=math.sqrt(rate * (2 - rate) * self._mass))
        squared = float(self._step_path.double().square().sum())
        steady = squared / (1 - (1 - rate) ** (2 * (generation + 1))) / n < 2 + 4 / (n + 1)  # else steps grow by themselves
        self._path.mul_(1 - along)
        if steady:
            self._path.add_(mean, alpha=math.sqrt(along * (2 - along) * self._mass))
        one = self._rank_one * (1.0 if steady else 1 - along * (2 - along))
        learnt = one * (self._path.square() - 1) + self._rank_many * squares
        self._variance.mul_(learnt.clamp_(max=1.0).exp_()).clamp_(min=1e-30)
        # a factor of e at most, as in pycma
        self._size *= math.exp(min(1.0, rate / self._damping * (math.sqrt(squared) / self._length - 1)))

    def _tensors(self) -> dict[str, Tensor]:
        return {"centre": self._centre, "variance": self._variance, "step_path": self._step_path, "scaled_path": self._path}
