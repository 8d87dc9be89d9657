"""Independent perturbations: noise ~ N(0, I) for every direction, which is a member or an antithetic pair."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from neuro_cli.sampler.dense import Dense


class Iid(Dense):
    """Perturbations N(0, I), M numbers for each direction: option ``iid``, and ``antithetic`` with members in mirrored pairs."""

    def draw(self, generation: int, first: int, count: int, dtype: torch.dtype) -> Tensor:
        return self.noise.draw(generation, range(first, first + count), dtype=dtype)

    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        self.noise.perturb(base, scale, generation, direction, plus, minus)

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        return self.noise.combine(weights, moments, generation, directions, start, stop)
