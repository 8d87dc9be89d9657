"""CMA-ES: covariance matrix adaptation of a full matrix with active (negative) weights, for small dimensions.

Hansen, "The CMA evolution strategy: a tutorial", arXiv:1604.00772, with the constants and the order of pycma 4.5: weights of the
worse half are negative, and a worse member counts with the length sqrt(M).

Legend: P members, M parameters.
"""

import math

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, State
from neuro_cli.algo.covariance.cma_weights import damping_of, expected_length, mass_of, raw_weights, with_negative
from neuro_cli.algo.covariance.full import FullCovariance
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.shaping import by_rank, is_flat


class CMAES(FullCovariance):
    """Moves the centre to the weighted mean of the better half; sigma follows a path, and the matrix all members.

    Its eigenvectors are computed again after some generations, as in pycma. For at most 1,024 parameters. Raises ConfigError.
    """

    name = "cma_es"

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        if population < 4:
            raise ConfigError("population", population, "algo=cma_es takes the mean of the better half: at least 4")
        super().start(centre, layout, population, seed)
        self._covariance = self._form.square()
        self._lengths = self._form.diagonal().clone()
        self._step_path, self._path = (torch.zeros(layout.size, dtype=torch.float64, device=centre.device) for _ in range(2))
        self._age = 0  # generations since the last decomposition
        self._constants(layout.size, population)

    def _constants(self, n: int, population: int) -> None:
        weights = raw_weights(population)
        mass = mass_of(weights[weights > 0])
        self._mass, self._step_rate = mass, min(0.5, (mass + 2) / (n + mass + 3))
        self._damping = damping_of(n, mass, self._step_rate)
        self._path_rate = (4 + mass / n) / (n + 4 + 2 * mass / n)
        self._rank_one = min(1.0, population / 6) * 2 / ((n + 1.3) ** 2 + mass)
        self._rank_many = min(1 - self._rank_one, 2 * (0.25 + mass + 1 / mass - 2) / ((n + 2) ** 2 + mass))
        ranked = with_negative(weights, self._rank_one, self._rank_many, n)[::-1]  # worst first
        # shares by themselves: ties at the middle must not change their sum
        self._ranked = np.array([np.maximum(ranked, 0.0), ranked])
        self._gap = 1 / (self._rank_one + self._rank_many) / n / 10
        self._length = expected_length(n)

    def condition(self, generation: int) -> float:
        return float((self._lengths.max() / self._lengths.min()) ** 2)

    def stuck(self, generation: int) -> bool:
        place = generation % len(self._lengths)
        length = 0.1 * self._size * float(self._lengths[place])
        if length > float(self._centre.norm()) * torch.finfo(self._centre.dtype).eps:
            return False  # some digit changes, whatever the axis
        step = length * torch.linalg.eigh(self._form)[1][:, place]
        return bool((self._centre == self._centre + step).all())

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        self._flat = is_flat(fitness)
        self._shares, self._weights = by_rank(fitness, self._ranked)
        return self.each(fitness)

    def tell(self, generation: int, sums: Tensor) -> None:
        if self._flat:
            return  # ties carry no information
        noise, weights = sums.double(), torch.from_numpy(self._weights).to(sums.device)
        mean = torch.from_numpy(self._shares).to(sums.device) @ noise
        step = self._form @ mean
        self._centre.add_((self._size * step).to(self._centre.dtype))
        rate, along, n = self._step_rate, self._path_rate, len(mean)
        self._step_path.mul_(1 - rate).add_(mean, alpha=math.sqrt(rate * (2 - rate) * self._mass))
        squared = float(self._step_path.square().sum())
        steady = squared / (1 - (1 - rate) ** (2 * (generation + 1))) / n < 2 + 4 / (n + 1)  # else steps grow by themselves
        self._path.mul_(1 - along)
        if steady:
            self._path.add_(step, alpha=math.sqrt(along * (2 - along) * self._mass))
        self._learn(noise, weights, steady)
        # a factor of e at most, as in pycma
        self._size *= math.exp(min(1.0, rate / self._damping * (math.sqrt(squared) / self._length - 1)))

    def _learn(self, noise: Tensor, weights: Tensor, steady: bool) -> None:
        """Learn the matrix from the path and the members; it decomposes once it is older than the gap."""
        along, one, many = self._path_rate, self._rank_one, self._rank_many
        missing = 0.0 if steady else along * (2 - along)  # variance that a path that stalls does not bring
        squares = noise.square().sum(1).clamp(min=1e-18)
        scaled = many * torch.where(weights < 0, weights * len(self._path) / squares, weights)
        steps = noise @ self._form.T
        self._covariance.mul_(1 - one * (1 - missing) - many * float(weights.sum()))
        self._covariance.add_(torch.outer(self._path, self._path), alpha=one).add_((steps.T * scaled) @ steps)
        self._age += 1
        if self._age >= self._gap:
            self._decompose()

    def _decompose(self) -> None:
        self._covariance = (self._covariance + self._covariance.T) / 2
        values, axes = torch.linalg.eigh(self._covariance)
        self._lengths = values.clamp(min=float(values[-1]) * 1e-20).sqrt()  # rounding may leave a negative one
        # the symmetric root, where pycma takes the axes: signs and order of those hang on the last bit
        self._form, self._age = (axes * self._lengths) @ axes.T, 0

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "centre": self._centre,
            "covariance": self._covariance,
            "form": self._form,
            "lengths": self._lengths,
            "step_path": self._step_path,
            "path": self._path,
        }

    def state(self) -> State:
        state = super().state()
        return State(state.tensors, state.scalars | {"age": self._age})

    def restore(self, state: State) -> None:
        super().restore(state)
        self._age = int(state.scalars["age"])
