"""Independent perturbations: noise ~ N(0, I) for every direction, which is a member or an antithetic pair."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import PIECE, Perturbation, Transform
from neuro_cli.sampler.dense import Dense

KEPT = 2**24  # most numbers of a generation in the store: 64 MiB


class DrawnNoise:
    """Stores the noise of chunks of directions of one generation for the update, in float32 on a CPU. Thread-safe.

    Reading takes a third of the time of drawing.
    ``directions`` of a generation; nothing is stored where all of them have more than KEPT numbers.
    """

    def __init__(self, noise: Noise, directions: int) -> None:
        self._noise, self._lock = noise, threading.Lock()
        self._keeps = noise.device.type == "cpu" and directions * noise.size <= KEPT
        self._generation, self._chunks = -1, dict[int, Tensor]()  # keyed by the first direction

    def draw(self, generation: int, first: int, count: int, dtype: torch.dtype) -> Tensor:
        """Return the noise (count, M) of directions [first, first + count); whoever takes it must not write to it."""
        made = self._noise.draw(generation, range(first, first + count), dtype=dtype)
        if self._keeps and dtype == torch.float32:
            with self._lock:
                if generation != self._generation:
                    self._generation, self._chunks = generation, {}
                self._chunks[first] = made
        return made

    def of(self, generation: int, directions: range) -> list[Tensor] | None:
        """Return the noise of exactly ``directions``, chunk after chunk; None where some of it is not here."""
        with self._lock:
            chunks = sorted(self._chunks.items()) if generation == self._generation else []
        result, reached = list[Tensor](), directions.start
        for first, noise in chunks:
            low, high = max(first, reached), min(first + len(noise), directions.stop)
            if low < high and low == reached:
                result.append(noise[low - first : high - first])
                reached = high
        return result if reached == directions.stop else None


class Iid(Dense):
    """Perturbations N(0, I), M numbers for each direction: option ``iid``, and ``antithetic`` with members in mirrored pairs."""

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        self._drawn = DrawnNoise(noise, self.directions)

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
        drawn = self._drawn.of(generation, directions)
        return self.noise.combine(weights, moments, generation, directions, start, stop, drawn)

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        return self.perturbed_by(self._drawn.draw(generation, first, rows.directions, dtype), rows)
