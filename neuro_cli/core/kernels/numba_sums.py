"""Weighted sums over directions of vectors of numbers or of signs, and of outer products of signs.

Arrays are float32, weights (D,); signs are bits of words (D, W) uint32, +1 where a bit is 0.
"""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.numba_linear import add_row
from neuro_cli.core.kernels.numba_products import GROUP, add_products
from neuro_cli.core.kernels.vectors import LANES, added_flipped, added_flipped_one, flipped, flipped_one

BLOCK = 64 * GROUP  # directions whose signs are spread out at a time
_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_FLOAT, _LINE = nb.uintp(4), nb.uintp(4 * LANES)


@_compiled
def _spread(words, first, weights, out):
    """Set ``out`` (b, C) to weights[d] with the signs of the first bits of words[d] (W,), for directions from ``first`` on."""
    # addresses: parts of LANES numbers and single ones, ``size`` in all of a row
    assert out.shape[1] <= 32 * words.shape[1] and first + out.shape[0] <= min(words.shape[0], weights.size)
    assert out.flags.c_contiguous and out.itemsize == 4
    size, target, values = out.shape[1], nb.uintp(out.ctypes.data), np.empty(LANES, np.float32)
    source = nb.uintp(values.ctypes.data)
    for row in range(out.shape[0]):
        values[:] = weights[first + row]
        for part in range(size // LANES):
            flipped(source, words[first + row, part // 2] >> nb.uint32(LANES * (part % 2)), target)
            target += _LINE
        for c in range(size // LANES * LANES, size):
            flipped_one(source, words[first + row, c // 32] >> nb.uint32(c % 32), target)
            target += _FLOAT
    return values[0]  # they stay where they are until here


@_compiled
def add_sign_sum(rows, columns, weights, out):
    """Add to ``out`` (O, I) the sum over directions of weights[d] times the outer product of its signs, bits of words (D, W)."""
    assert rows.shape[0] == columns.shape[0] == weights.size
    ones, most = np.ones(weights.size, np.float32), min(BLOCK, weights.size)
    lines, signs = np.empty((most, out.shape[0]), np.float32), np.empty((most, out.shape[1]), np.float32)
    for first in range(0, weights.size, BLOCK):
        count = min(BLOCK, weights.size - first)
        _spread(rows, first, weights, lines[:count])
        _spread(columns, first, ones, signs[:count])
        add_products(lines[:count], 0, 0, signs[:count], 0, 0, 1, ones[:count], out)


@_compiled
def add_weighted(vectors, weights, out):
    """Add to ``out`` (O,) the sum over directions of weights[d] * vectors[d]; vectors (D, O), whose rows may lie apart."""
    # addresses: out.size numbers from the begin of a row of vectors on
    assert vectors.shape == (weights.size, out.size) and vectors.itemsize == weights.itemsize == out.itemsize == 4
    assert out.flags.c_contiguous and (vectors.shape[1] == 1 or vectors.strides[1] == 4)
    source, target = nb.uintp(vectors.ctypes.data), nb.uintp(out.ctypes.data)
    for d in range(weights.size):
        add_row(source + nb.uintp(vectors.strides[0]) * nb.uintp(d), out.size, weights[d], target)


@_compiled
def add_weighted_signs(words, weights, out):
    """Add to ``out`` (O,) the sum over directions of weights[d] * the signs of the first O bits of words[d]; words (D, W)."""
    assert words.shape[0] == weights.size and out.size <= 32 * words.shape[1]
    assert out.flags.c_contiguous and out.itemsize == weights.itemsize == 4
    ones, target = np.ones(LANES, np.float32), nb.uintp(out.ctypes.data)
    one = nb.uintp(ones.ctypes.data)
    for d in range(weights.size):
        for part in range(out.size // LANES):
            bits = words[d, part // 2] >> nb.uint32(LANES * (part % 2))
            added_flipped(one, bits, weights[d], target + _LINE * nb.uintp(part))
        for c in range(out.size // LANES * LANES, out.size):
            bit = words[d, c // 32] >> nb.uint32(c % 32)
            added_flipped_one(one, bit, weights[d], target + _FLOAT * nb.uintp(c))
    return ones[0]  # they stay where they are until here
