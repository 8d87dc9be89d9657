"""Independent perturbations: noise ~ N(0, I) for every direction, which is a member or an antithetic pair."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import Perturbation
from neuro_cli.sampler.dense import Dense, DensePerturbation
from neuro_cli.sampler.drawn import DrawnNoise


class Iid(Dense):
    """Perturbations N(0, I), M numbers for each direction: option ``iid``, and ``antithetic`` with members in mirrored pairs."""

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        self._drawn = DrawnNoise(noise, self.directions)

    def draw(self, generation: int, first: int, count: int, dtype: torch.dtype) -> Tensor:
        return self.noise.draw(generation, range(first, first + count), dtype=dtype)

    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        self.noise.perturb(base, scale, generation, direction, plus, minus)

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        drawn = self._drawn.of(generation, directions)
        return self.noise.combine(weights, moments, generation, directions, start, stop, drawn)

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        return DensePerturbation(self._drawn.draw(generation, first, rows.directions, dtype), rows)
