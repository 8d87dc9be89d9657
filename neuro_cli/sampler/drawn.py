"""Noise that passes of a generation drew, stored for the sums of the update: reading costs a third of drawing."""

import threading

import torch
from torch import Tensor

from neuro_cli.core.noise import Noise

KEPT = 2**24  # most numbers of a generation in the store: 64 MiB


class DrawnNoise:
    """Noise of chunks of directions of one generation, in float32 on a CPU. Thread-safe.

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
