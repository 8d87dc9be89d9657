"""Independent perturbations: noise ~ N(0, I) for every direction, which is a member or an antithetic pair."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.noise import HELD
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import PIECE, Perturbation, Transform
from neuro_cli.sampler.dense import Dense


class Iid(Dense):
    """Perturbations N(0, I), M numbers for each direction: option ``iid``, and ``antithetic`` with members in mirrored pairs."""

    def draw(self, generation: int, first: int, count: int, dtype: torch.dtype) -> Tensor:
        return self.noise.draw(generation, range(first, first + count), dtype=dtype)

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        noise = self.draw(generation, first, rows.directions, dtype)
        if self.directions * self.noise.size <= HELD:
            self.noise.hold(generation, first, noise)
        return self.perturbed_by(noise, rows)

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
        # numpy on a CPU: it calls an operation of few numbers in a tenth of torch's time
        host = out.device.type == "cpu"
        array: Callable[[Tensor], Any] = Tensor.numpy if host else Tensor.detach
        index: Callable[[np.ndarray], Any] = np.asarray if host else partial(torch.as_tensor, device=out.device)

        def piece(rows: slice) -> None:
            if transform is None:
                parent = np.zeros(rows.stop - rows.start, np.int64) if parents is None else parents[rows]
                if self.noise.members(bases, parent, scale, generation, directions[rows], signs[rows], out[rows]):
                    return
            first, stop = int(directions[rows.start]), int(directions[rows.stop - 1]) + 1
            noise = self.draw(generation, first, stop - first, torch.float32)
            steps = array(scale) * array(noise if transform is None else transform(noise))
            base = array(bases)[:1] if parents is None else array(bases)[index(parents[rows])]
            # a product and a sum, each rounded, as in perturb()
            array(out)[rows] = base + steps[index(directions[rows] - first)] * index(signs[rows, None].astype(np.float32))

        length = max(2, PIECE // out.shape[1])
        self.noise.threads.map(piece, [slice(low, min(low + length, len(out))) for low in range(0, len(out), length)])

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        return self.noise.combine(weights, moments, generation, directions, start, stop)
