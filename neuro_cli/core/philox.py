"""The definition of the addressed noise, in plain torch operations: every device gives these numbers.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3) is a
function, not a stream: 128 bits of address and 64 bits of key give 128 random bits. Here

    key      = the run's seed
    address  = (column counter, direction, generation, stream)

and columns come in tiles of 1,024: column ``k`` is word ``(k % 1024) // 256`` of counter ``256 * (k // 1024) + k % 256``,
so that vector code writes complete lanes. The seeds of two runs, two generations, two directions give unrelated numbers.
"""

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.quantile import BASE, SLOPE

MULTIPLIER = (0xD2511F53, 0xCD9E8D57)
KEY_STEP = (0x9E3779B9, 0xBB67AE85)
LANE = 256
TILE = 4 * LANE
_MASK = 0xFFFFFFFF


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ten rounds of Philox4x32. Words are int64 tensors of values in [0, 2**32), broadcast against each other."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = _multiply(x0, MULTIPLIER[0])
        high1, low1 = _multiply(x2, MULTIPLIER[1])
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0
        k0 = (k0 + KEY_STEP[0]) & _MASK
        k1 = (k1 + KEY_STEP[1]) & _MASK
    return x0, x1, x2, x3


def _multiply(word: Tensor, constant: int) -> tuple[Tensor, Tensor]:
    """High and low half of a 32 x 32 bit product, by 16-bit halves: int64 has no unsigned overflow to rely on."""
    by_low = word * (constant & 0xFFFF)
    by_high = word * (constant >> 16) + (by_low >> 16)
    return by_high >> 16, ((by_high & 0xFFFF) << 16) | (by_low & 0xFFFF)


def words(key: tuple[int, int], generation: int, directions: Tensor, stream: int, start: int, stop: int) -> Tensor:
    """Random words (D, stop - start), int64 in [0, 2**32), of the directions (D,) at columns [start, stop)."""
    first, last = start // TILE, -(-stop // TILE)
    device = directions.device
    counter = torch.arange(first * LANE, last * LANE, dtype=torch.int64, device=device)

    def constant(value: int) -> Tensor:
        return torch.full((), value, dtype=torch.int64, device=device)

    parts = philox((counter[None, :], directions.to(torch.int64)[:, None], constant(generation), constant(stream)), key)
    lanes = [part.view(len(directions), last - first, 1, LANE) for part in parts]
    flat = torch.cat(lanes, dim=2).view(len(directions), -1)
    return flat[:, start - first * TILE : stop - first * TILE]


def normals(random_words: Tensor) -> Tensor:
    """Standard normal float32 of the words, same shape (the law is in :mod:`neuro_cli.core.quantile`)."""
    device = random_words.device
    base, slope = torch.from_numpy(BASE).to(device), torch.from_numpy(SLOPE).to(device)
    tail = (random_words & 0x7FFFFFFF).clamp(min=1).to(torch.int32).to(torch.float32).view(torch.int32)
    segment = (tail >> 17) - (127 << 6)
    step = ((tail >> 5) & 4095).to(torch.float32)
    size = base[segment.long()] + step * slope[segment.long()]
    return torch.where(random_words >= 0x80000000, -size, size)


def few_words(key: tuple[int, int], generation: int, directions: np.ndarray, stream: int, start: int, stop: int) -> np.ndarray:
    """Return :func:`words` as (D, stop - start) uint64 by numpy: less time for few columns, as only theirs are computed."""
    columns = np.arange(start, stop, dtype=np.uint64)
    lane = columns % TILE // LANE
    x0, x1 = (columns // TILE * LANE + columns % LANE)[None], directions.astype(np.uint64)[:, None]
    x2, x3 = np.full((1, 1), generation, np.uint64), np.full((1, 1), stream, np.uint64)
    half, mask, (m0, m1) = np.uint64(32), np.uint64(_MASK), map(np.uint64, MULTIPLIER)
    k0, k1 = key
    for _ in range(10):
        p0, p1 = m0 * x0, m1 * x2
        x0, x1, x2, x3 = (p1 >> half) ^ x1 ^ np.uint64(k0), p1 & mask, (p0 >> half) ^ x3 ^ np.uint64(k1), p0 & mask
        k0, k1 = (k0 + KEY_STEP[0]) & _MASK, (k1 + KEY_STEP[1]) & _MASK
    return np.choose(lane.astype(np.intp), (x0, x1, x2, x3)) if lane.any() else x0


def few_normals(random_words: np.ndarray) -> np.ndarray:
    """Return the normal numbers of :func:`normals` from :func:`few_words`, float32."""
    tail = np.maximum(random_words & np.uint64(0x7FFFFFFF), np.uint64(1)).astype(np.float32).view(np.int32)
    segment = (tail >> 17) - (127 << 6)
    size = BASE[segment] + ((tail >> 5) & 4095).astype(np.float32) * SLOPE[segment]
    return np.where(random_words >= np.uint64(0x80000000), -size, size)
