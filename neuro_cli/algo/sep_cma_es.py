"""sep-CMA-ES: evolution strategy with covariance matrix adaptation of a diagonal, linear in the parameters.

Ros, Hansen, "A simple modification in CMA-ES achieving linear time and space complexity", PPSN X, 2008: the covariance is a
diagonal, and learns (M + 2) / 3 times as fast. Its other constants are those of Hansen, "The CMA evolution strategy: a
tutorial", arXiv:1604.00772, table 1, with positive weights.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, PopulationAlgorithm, Proposal, State, non_finite_of
from neuro_cli.algo.layers import SIGMA, Layers
from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.shaping import by_rank, is_flat


class SepCMAES(PopulationAlgorithm):
    """Moves the centre to the weighted mean of the better half; a step size and a variance of every parameter follow.

    ``sigma`` > 0: initial step size. ``learning_rate`` in (0, 1]: share of the way to that mean. ``covariance_rate``
    >= 0: factor on the rates of the covariance, 1: the published ones, 0: variances keep their ratios. ``layers``: factors on
    the initial sigma by pattern of parameter names. Raises ConfigError.
    """

    sums_add_up = False  # squares of noise become variances, which a late correction would make negative

    def __init__(
        self,
        sigma: float = 0.05,
        learning_rate: float = 1.0,
        covariance_rate: float = 1.0,
        non_finite: str = "raise",
        layers: Mapping[str, Any] | None = None,
    ) -> None:
        self.non_finite = non_finite_of(non_finite)
        self.sigma = number("algo.sigma", sigma, above=0.0)
        self.learning_rate = number("algo.learning_rate", learning_rate, above=0.0, high=1.0)
        self.covariance_rate = number("algo.covariance_rate", covariance_rate, low=0.0)
        self._layers = Layers(layers, (SIGMA,))

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        if population < 4:
            raise ConfigError("population", population, "algo=sep_cma_es takes the mean of the better half: at least 4")
        self._layers.start(layout)
        spread = self._layers.spread(centre.device)
        self._centre, self._variance = centre.clone(), torch.ones_like(centre) if spread is None else spread.square()
        self._step_path, self._path = torch.zeros_like(centre), torch.zeros_like(centre)
        self._size = self.sigma
        self._constants(layout.size, population)

    def _constants(self, columns: int, population: int) -> None:
        better = population // 2
        weights = math.log(better + 0.5) - np.log(np.arange(1, better + 1))
        weights = weights / weights.sum()
        self._ranked = np.append(np.zeros(population - better), weights[::-1])  # worst first
        n, mass = columns, 1 / float((weights**2).sum())
        self._mass = mass
        self._step_rate = (mass + 2) / (n + mass + 5)
        self._damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1) + self._step_rate
        self._path_rate = (4 + mass / n) / (n + 4 + 2 * mass / n)
        faster = self.covariance_rate * (n + 2) / 3
        self._rank_one = min(1.0, faster * 2 / ((n + 1.3) ** 2 + mass))
        self._rank_many = min(1 - self._rank_one, faster * 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))
        self._length = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))  # expected length of a normal vector

    @property
    def centre(self) -> Tensor:
        return self._centre

    def sigma_at(self, generation: int) -> float:
        return float((self._size * self._variance.sqrt()).mean(dtype=torch.float64).float())

    def rate_at(self, generation: int) -> float:
        return self.learning_rate

    @property
    def needs_parameters(self) -> str | None:
        return "learns a step size of each parameter from the squares of its noise"

    def ask(self, generation: int) -> Proposal:
        return Proposal.around(self._centre, self._size * self._variance.sqrt())

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        self._flat = is_flat(fitness)
        weights = by_rank(fitness, self._ranked)
        return Combination(np.stack([weights, weights]), (1, 2))

    def can_shape_parts(self) -> bool:
        return False  # the better half is one of the whole population

    def tell(self, generation: int, sums: Tensor) -> None:
        if self._flat:
            return  # ties: weights for all members would still move the centre by the members' mean
        mean, deviations = sums[0], self._variance.sqrt()
        step = deviations * mean
        self._centre.add_(step, alpha=self.learning_rate * self._size)
        rate, along = self._step_rate, self._path_rate
        self._step_path.mul_(1 - rate).add_(mean, alpha=math.sqrt(rate * (2 - rate) * self._mass))
        length = float(self._step_path.double().square().sum().sqrt())
        settled = length / math.sqrt(1 - (1 - rate) ** (2 * (generation + 1)))
        steady = settled < (1.4 + 2 / (len(mean) + 1)) * self._length  # else steps grow by themselves
        self._path.mul_(1 - along)
        if steady:
            self._path.add_(step, alpha=math.sqrt(along * (2 - along) * self._mass))
        kept = 1 - self._rank_one - self._rank_many + (0.0 if steady else self._rank_one * along * (2 - along))
        squares = (sums[1] + 1).clamp_(min=0.0)  # weighted squares of the noise; rounding may leave a negative one
        learnt = self._rank_one * self._path.square() + self._rank_many * squares * self._variance
        self._variance.mul_(kept).add_(learnt).clamp_(min=1e-30)
        self._size *= math.exp(min(1.0, rate / self._damping * (length / self._length - 1)))  # a factor of e at most, as in pycma

    def state(self) -> State:
        tensors = {"centre": self._centre, "variance": self._variance, "step_path": self._step_path, "path": self._path}
        return State({name: tensor.clone() for name, tensor in tensors.items()}, {"sigma": self._size})

    def restore(self, state: State) -> None:
        own = {"centre": self._centre, "variance": self._variance, "step_path": self._step_path, "path": self._path}
        for name, tensor in own.items():
            tensor.copy_(state.tensors[name])
        self._size = float(state.scalars["sigma"])
