"""The addressed noise on a GPU as Triton kernels, with the bits of :mod:`neuro_cli.core.philox`: one launch for all of it.

Triton comes with torch where torch has CUDA. With TRITON_INTERPRET=1 the same source runs on a CPU, slowly, so tests can compare
it with its definition without a GPU.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuro_cli.core.philox import LANE, TILE
from neuro_cli.core.quantile import BASE, SLOPE

CHANGING = ["key0", "key1", "generation", "stream", "start", "width", "tiles", "count"]  # values that need no recompilation
NARROW = 2**31  # columns that places of 32 bits count
PART = 64  # counters of a tile that one program sums: enough programs for a GPU where there are few columns


@triton.jit
def _normal(word, base, slope):
    """Standard normals of ``word`` uint32 (the law is in neuro_cli.core.quantile)."""
    low = (word & 0x7FFFFFFF).to(tl.int32)
    bits = tl.where(low > 0, low, 1).to(tl.float32).to(tl.int32, bitcast=True)
    segment = (bits >> 17) - (127 << 6)
    step = ((bits >> 5) & 4095).to(tl.float32)
    size = tl.load(base + segment) + step * tl.load(slope + segment)
    return (size.to(tl.uint32, bitcast=True) ^ (word & 0x80000000)).to(tl.float32, bitcast=True)


@triton.jit
def _store(out, column, width, word, base, slope, law: tl.constexpr):
    inside = (column >= 0) & (column < width)
    if law:
        tl.store(out + column, _normal(word, base, slope).to(out.dtype.element_ty), mask=inside)
    else:
        tl.store(out + column, word, mask=inside)


@triton.jit
def _words(counter, direction, generation, stream, key0, key1, lanes: tl.constexpr):
    """Ten rounds of Philox4x32: the four words of every ``counter`` (lanes,) uint32 of one address."""
    zero = tl.full([lanes], 0, tl.uint32)
    x0, x1 = counter, zero + direction.to(tl.uint32)
    x2, x3 = tl.full([lanes], generation, tl.uint32), tl.full([lanes], stream, tl.uint32)
    k0, k1 = tl.full([lanes], key0, tl.uint32), tl.full([lanes], key1, tl.uint32)
    m0, m1 = tl.full([lanes], 0xD2511F53, tl.uint32), tl.full([lanes], 0xCD9E8D57, tl.uint32)
    s0, s1 = tl.full([lanes], 0x9E3779B9, tl.uint32), tl.full([lanes], 0xBB67AE85, tl.uint32)
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(x0, m0), tl.mul(x0, m0, sanitize_overflow=False)
        high1, low1 = tl.umulhi(x2, m1), tl.mul(x2, m1, sanitize_overflow=False)
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0
        k0, k1 = tl.add(k0, s0, sanitize_overflow=False), tl.add(k1, s1, sanitize_overflow=False)
    return x0, x1, x2, x3


@triton.jit
def _store_sums(out, column, width, sums):
    tl.store(out + column, sums.to(tl.float32), mask=(column >= 0) & (column < width))


@triton.jit(do_not_specialize=CHANGING)
def _draw(
    out, directions, base, slope, key0, key1, generation, stream, start, width, tiles,
    law: tl.constexpr, wide: tl.constexpr, lanes: tl.constexpr,
):  # fmt: skip
    """Draw one tile of one direction; a word names a segment of the table, below its 1,985."""
    row, place = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    tile = start // (4 * lanes) + (place.to(tl.int64) if wide else place)
    lane = tl.arange(0, lanes)
    counter = (tile * lanes + lane).to(tl.uint32)
    x0, x1, x2, x3 = _words(counter, tl.load(directions + row), generation, stream, key0, key1, lanes)
    line = out + row.to(tl.int64) * width
    column = tile * (4 * lanes) - start + lane
    _store(line, column, width, x0, base, slope, law)
    _store(line, column + lanes, width, x1, base, slope, law)
    _store(line, column + 2 * lanes, width, x2, base, slope, law)
    _store(line, column + 3 * lanes, width, x3, base, slope, law)


@triton.jit
def _term(sums, weight, word, base, slope, square: tl.constexpr):
    noise = _normal(word, base, slope).to(tl.float64)
    return sums + weight * (noise * noise - 1.0 if square else noise)


@triton.jit(do_not_specialize=CHANGING)
def _combine(
    out, directions, weights, base, slope, key0, key1, generation, stream, start, width, count,
    square: tl.constexpr, wide: tl.constexpr, lanes: tl.constexpr, part: tl.constexpr,
):  # fmt: skip
    """Compute ``part`` counters of one tile: the sum over all directions, in their order, in float64."""
    parts = lanes // part
    place = tl.program_id(0) // parts
    tile = start // (4 * lanes) + (place.to(tl.int64) if wide else place)
    lane = tl.program_id(0) % parts * part + tl.arange(0, part)
    counter = (tile * lanes + lane).to(tl.uint32)
    sum0, sum1 = tl.full([part], 0, tl.float64), tl.full([part], 0, tl.float64)
    sum2, sum3 = tl.full([part], 0, tl.float64), tl.full([part], 0, tl.float64)
    for d in range(count):
        weight = tl.load(weights + d)
        x0, x1, x2, x3 = _words(counter, tl.load(directions + d), generation, stream, key0, key1, part)
        sum0, sum1 = _term(sum0, weight, x0, base, slope, square), _term(sum1, weight, x1, base, slope, square)
        sum2, sum3 = _term(sum2, weight, x2, base, slope, square), _term(sum3, weight, x3, base, slope, square)
    column = tile * (4 * lanes) - start + lane
    _store_sums(out, column, width, sum0)
    _store_sums(out, column + lanes, width, sum1)
    _store_sums(out, column + 2 * lanes, width, sum2)
    _store_sums(out, column + 3 * lanes, width, sum3)


def draw(
    key: tuple[int, int], generation: int, directions: Tensor, stream: int, start: int, stop: int, law: bool,
    dtype: torch.dtype = torch.float32,
) -> Tensor:  # fmt: skip
    """Draw normals (D, stop - start) (``law``) as ``dtype``, or words uint32, on a GPU: directions (D,) at [start, stop)."""
    width, tiles = stop - start, -(-stop // TILE) - start // TILE
    out = torch.empty(len(directions), width, dtype=dtype if law else torch.uint32, device=directions.device)
    if out.numel():
        base, slope = _tables(directions.device)
        _draw[(len(directions) * tiles,)](
            out, directions, base, slope, *key, generation, stream, start, width, tiles, law=law, wide=width >= NARROW,
            lanes=LANE, num_warps=4,
        )  # fmt: skip
    return out


def combine(
    key: tuple[int, int], generation: int, directions: Tensor, stream: int, start: int, stop: int, weights: Tensor, square: bool
) -> Tensor:
    """Return the sum (stop - start,) float32 of weights (D,) float64 times noise, or (``square``) times noise**2 - 1."""
    width, tiles = stop - start, -(-stop // TILE) - start // TILE
    out = torch.empty(width, dtype=torch.float32, device=directions.device)
    base, slope = _tables(directions.device)
    if width:
        _combine[(tiles * (LANE // PART),)](
            out, directions, weights, base, slope, *key, generation, stream, start, width, len(directions),
            square=square, wide=width >= NARROW, lanes=LANE, part=PART, num_warps=1,
        )  # fmt: skip
    return out


@lru_cache(maxsize=8)
def _tables(device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(BASE).to(device), torch.from_numpy(SLOPE).to(device)
