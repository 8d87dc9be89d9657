"""Independent perturbations: noise ~ N(0, I) for every direction, which is a member or an antithetic pair."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from neuro_cli.sampler.base import PIECE, Transform
from neuro_cli.sampler.dense import Dense


class Iid(Dense):
    """Perturbations N(0, I), M numbers for each direction: option ``iid``, and ``antithetic`` with members in mirrored pairs."""

    def draw(self, generation: int, first: int, count: int, dtype: torch.dtype) -> Tensor:
        return self.noise.draw(generation, range(first, first + count), dtype=dtype)

    def explicits(self, generation: int, directions: range) -> Tensor:
        return self.draw(generation, directions.start, len(directions), torch.float32)

    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        self.noise.perturb(base, scale, generation, direction, plus, minus)

    def write_members(
        self, bases: Tensor, parents: np.ndarray | None, scale: Tensor, transform: Transform | None, generation: int,
        directions: np.ndarray, signs: np.ndarray, out: Tensor,
    ) -> None:  # fmt: skip
        def piece(rows: slice) -> None:
            which, chosen = directions[rows], torch.from_numpy(signs[rows].astype(np.float32)).to(out.device)
            first = int(which[0])
            noise = self.draw(generation, first, int(which[-1]) + 1 - first, torch.float32)
            steps = scale * (noise if transform is None else transform(noise))
            base = bases[:1] if parents is None else bases[torch.from_numpy(parents[rows]).to(out.device)]
            signed = steps[torch.from_numpy(which - first).to(out.device)].mul_(chosen[:, None])
            torch.add(base, signed, out=out[rows])  # a product and a sum, each rounded, as in perturb()

        length = max(2, PIECE // out.shape[1])
        self.noise.threads.map(piece, [slice(low, low + length) for low in range(0, len(out), length)])

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        return self.noise.combine(weights, moments, generation, directions, start, stop)
