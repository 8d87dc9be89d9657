"""Stochastic rounding of float32 to bfloat16 by addressed bits: a function of seed, generation and column, never a stream.

Between two neighbours of bfloat16 the upper one is chosen with the probability that makes the mean exact: steps of less than half
the distance, which rounding to nearest loses every time, arrive on average. Gupta, Agrawal, Gopalakrishnan, Narayanan, "Deep
learning with limited numerical precision", ICML 2015, section 3.
"""

import torch
from torch import Tensor

from neuro_cli.core.noise import WEIGHT_STREAM, Noise

TILE = 2**16  # columns whose bits are drawn at once; a word has the bits of two of them
BLOCK = 2**20  # columns that a thread rounds at once


class Rounding:
    """Rounding of the columns of one run, by the key and the threads of its ``noise``."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def store(self, values: Tensor, generation: int, start: int, out: Tensor) -> None:
        """Write ``values`` (n,) float32 of columns [start, start + n), rounded, to those columns of ``out`` (M,) bfloat16."""
        stop = start + len(values)

        def block(number: int) -> None:
            low, high = max(number * BLOCK, start), min((number + 1) * BLOCK, stop)
            if self._noise.rounded(values[low - start : high - start], generation, WEIGHT_STREAM, TILE, low, out[low:high]):
                return
            for tile in range(low // TILE, -(-high // TILE)):
                first, last = max(tile * TILE, low), min((tile + 1) * TILE, high)
                bits = self._bits(generation, tile)[first - tile * TILE : last - tile * TILE]
                out[first:last] = rounded(values[first - start : last - start], bits)

        self._noise.threads.map(block, range(start // BLOCK, -(-stop // BLOCK)))

    def _bits(self, generation: int, tile: int) -> Tensor:
        """Return random integers (TILE,) int32 in [0, 2**16): the lower half of a word comes first."""
        words = self._noise.words(generation, [tile], TILE // 2, WEIGHT_STREAM)[0]
        whole = words.view(torch.int32) if words.dtype == torch.uint32 else words
        return torch.stack([whole & 0xFFFF, (whole >> 16) & 0xFFFF], dim=1).flatten().to(torch.int32)


def rounded(values: Tensor, bits: Tensor) -> Tensor:
    """Round float32 ``values`` (n,) to bfloat16, away from zero where the 16 bits that are cut off plus ``bits`` carry.

    Infinities and NaN stay what they are.
    """
    result = ((values.view(torch.int32) + bits) >> 16).to(torch.int16).view(torch.bfloat16)
    return torch.where(values.isnan(), values.to(torch.bfloat16), result)
