"""Order of the training examples: epoch after epoch, each with its own permutation."""

from functools import lru_cache

import torch
from torch import Tensor

from neuro_cli.core.noise import random_permutation


class ExampleStream:
    """Stream of examples. Position p is place p % size in the permutation addressed by (seed, epoch p // size)."""

    def __init__(self, seed: int, size: int, device: torch.device) -> None:
        self.size = size
        # a batch is never larger than an epoch, so it needs at most two permutations
        self._permutation = lru_cache(maxsize=2)(lambda epoch: random_permutation(seed, epoch, size, device))
        self._nothing = torch.empty(0, dtype=torch.int64, device=device)

    def examples(self, start: int, stop: int) -> Tensor:
        """Return the stream's indices (stop - start,) int64 in [0, size) of positions [start, stop). Thread-safe."""
        pieces = [self._nothing]
        while start < stop:
            epoch, place = divmod(start, self.size)
            count = min(self.size - place, stop - start)
            pieces.append(self._permutation(epoch)[place : place + count])
            start += count
        return torch.cat(pieces)
