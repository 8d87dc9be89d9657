"""Linear layers of many members, a block of rows after the other: a core's caches hold a block from the first step to the last.

Rows are (S sides, D directions, e rows each) in that order, as in :mod:`neuro_cli.core.kernels.numba_rows`. Arrays are contiguous
and float32, or x, ``out`` and the weights bfloat16 as words of 16 bits; only outcomes are rounded. x (n, I), ``out`` (n, O),
weight (O, I), ``scales`` (S,), the bias (O,) and its noise ``vectors`` (D, O), whose rows may lie apart; what a layer lacks has
no columns. ``base`` (m, O): the centre's product of the first m rows of x where all others repeat them, else without rows.
``block``: rows of a block. Rows are read by address, since a view of each would take longer than its signs. The calling layer
asserts where such a loop begins and ends.
"""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.blas import product
from neuro_cli.core.kernels.vectors import (
    LANES,
    added_flipped,
    added_flipped_one,
    flipped,
    flipped_one,
    rounded,
    rounded_one,
    widened,
)

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
# sums of products may be reordered into vector lanes
_reordered = nb.njit(nogil=True, cache=True, boundscheck=False, fastmath={"reassoc", "contract", "nsz"})
_WORD, _FLOAT = nb.uintp(2), nb.uintp(4)
_LINE = nb.uintp(4 * LANES)  # bytes of LANES float32 numbers


@_compiled
def add_row(source, size, scale, target):
    """Add scale times the ``size`` numbers at address ``source`` to those at address ``target``, and touch no others."""
    # whole vectors first, then single numbers, so that no load passes the end of a row
    for _ in range(size // LANES):
        added_flipped(source, nb.uint32(0), scale, target)
        source, target = source + _LINE, target + _LINE
    for _ in range(size % LANES):
        added_flipped_one(source, nb.uint32(0), scale, target)
        source, target = source + _FLOAT, target + _FLOAT


@_compiled
def _fit(x, weight, base, bias, directions, scales, examples, block, out):
    """Assert that a layer's rows are those of its sides: place // D of a row is below the scales from its side on."""
    sides = out.shape[0] // x.shape[0] if x.shape[0] else 0
    # places of rows have 32 bits, whose divisions take fewer cycles than those of 64
    assert 0 < sides * x.shape[0] == out.shape[0] < 2**32 and block > 0
    assert x.shape[0] <= (scales.size - sides + 1) * directions * examples
    assert weight.shape == (out.shape[1], x.shape[1]) and x.itemsize == weight.itemsize == out.itemsize
    assert x.flags.c_contiguous and out.flags.c_contiguous
    assert base.shape[0] == 0 or (
        x.shape[0] % base.shape[0] == 0 and base.shape[1] == out.shape[1] and base.itemsize == out.itemsize
    )
    assert bias.size == 0 or (bias.size == out.shape[1] and bias.itemsize == 4 and bias.flags.c_contiguous)


@_compiled
def _fit_vectors(vectors, directions, out):
    """Assert that there are no vectors, or one for each direction whose numbers lie side by side."""
    if vectors.shape[1]:
        assert vectors.shape == (directions, out.shape[1]) and vectors.itemsize == 4
        assert vectors.shape[1] == 1 or vectors.strides[1] == 4


@_compiled
def _fit_signs(words, column, size):
    """Assert that words hold ``size`` signs from a column on, or that there are none (-1)."""
    assert column < 0 or column + (size + 31) // 32 <= words.shape[1]


@_compiled
def _flip(x, first, words, column, examples, out):
    """Set ``out`` (b, C) to rows of x from ``first`` on with their directions' signs, bits of words (D, W) from a column on."""
    size = x.shape[1]
    source, target = nb.uintp(x.ctypes.data) + _FLOAT * nb.uintp(size * first), nb.uintp(out.ctypes.data)
    for row in range(out.shape[0]):
        # directions repeat: the second side of a mirrored pair has the signs of the first
        direction = nb.uint32(first + row) // nb.uint32(examples) % nb.uint32(words.shape[0])
        # a word has 32 signs and a vector LANES numbers, so two vectors share a word where LANES is 16
        for part in range(size // LANES):
            flipped(source, words[direction, column + part // 2] >> nb.uint32(LANES * (part % 2)), target)
            source, target = source + _LINE, target + _LINE
        for c in range(size // LANES * LANES, size):
            flipped_one(source, words[direction, column + c // 32] >> nb.uint32(c % 32), target)
            source, target = source + _FLOAT, target + _FLOAT


@_compiled
def _round(x, out):
    """Set ``out`` (b, C) = x (b, C) float32 in bfloat16."""
    source, target = nb.uintp(x.ctypes.data), nb.uintp(out.ctypes.data)
    for _ in range(out.size // LANES):
        rounded(source, target)
        source, target = source + _LINE, target + _WORD * nb.uintp(LANES)
    for _ in range(out.size % LANES):
        rounded_one(source, target)
        source, target = source + _FLOAT, target + _WORD


@_compiled
def _add_flipped(x, step, first, words, column, examples, scales, out):
    """Add to ``out`` (b, C), the rows from ``first`` on, scale * x (b, C) with their directions' signs, bits of ``words`` (D, W).

    ``step``: numbers from a row of x to the next; 0 adds one row to all of them.
    """
    size, directions = out.shape[1], nb.uint32(words.shape[0])
    begin, target = nb.uintp(x.ctypes.data), nb.uintp(out.ctypes.data)
    for row in range(out.shape[0]):
        place, source = nb.uint32(first + row) // nb.uint32(examples), begin + _FLOAT * nb.uintp(step * row)
        direction, scale = place % directions, scales[place // directions]
        for part in range(size // LANES):
            added_flipped(source, words[direction, column + part // 2] >> nb.uint32(LANES * (part % 2)), scale, target)
            source, target = source + _LINE, target + _LINE
        for c in range(size // LANES * LANES, size):
            added_flipped_one(source, words[direction, column + c // 32] >> nb.uint32(c % 32), scale, target)
            source, target = source + _FLOAT, target + _FLOAT


@_compiled
def _add_scaled(x, first, directions, examples, scales, factor, out):
    """Add scale * factor * x (b, C) to ``out`` (b, C), the rows from ``first`` on."""
    source, target, size = nb.uintp(x.ctypes.data), nb.uintp(out.ctypes.data), x.shape[1]
    for row in range(x.shape[0]):
        scale = scales[nb.uint32(first + row) // nb.uint32(examples) // nb.uint32(directions)]
        at = _FLOAT * nb.uintp(size * row)
        add_row(source + at, size, factor * scale, target + at)


@_compiled
def _add_vectors(vectors, first, examples, scales, out):
    """Add to ``out`` (b, O), the rows from ``first`` on, scale * vectors[direction], (D, O)."""
    directions, size, step = nb.uint32(vectors.shape[0]), out.shape[1], nb.uintp(vectors.strides[0])
    target, noise = nb.uintp(out.ctypes.data), nb.uintp(vectors.ctypes.data)
    for row in range(out.shape[0]):
        place = nb.uint32(first + row) // nb.uint32(examples)
        add_row(noise + step * nb.uintp(place % directions), size, scales[place // directions], target)
        target += _FLOAT * nb.uintp(size)


@_compiled
def _add_bias(bias, out):
    """Add bias (O,) to the rows of ``out`` (b, O)."""
    target = nb.uintp(out.ctypes.data)
    for _ in range(out.shape[0]):
        add_row(nb.uintp(bias.ctypes.data), bias.size, nb.float32(1), target)
        target += _FLOAT * nb.uintp(bias.size)


@_compiled
def _centre(source, weight, base, first, out):
    """Set ``out`` (b, O) to the centre's product of ``source`` (b, I), the rows of x from ``first`` on."""
    if base.shape[0]:
        for row in range(out.shape[0]):
            out[row] = base[(first + row) % base.shape[0]]
    else:
        product(source, weight, out)


@_compiled
def flipped_layer(x, weight, base, noise, bias, shift, words, columns, scales, examples, block, out):
    """Set ``out`` = x weight^T + scale * ((x B) noise^T) A + bias + scale * C shift; ``shift`` (O,), the bias' noise.

    ``columns`` (3,) of ``words`` (D, W): where the signs B, A and C of a direction begin, -1: there are none. x has the rows of
    ``out``, or those of one side for all of them.
    """
    _fit(x, weight, base, bias, words.shape[0], scales, examples, block, out)
    # one block of scratch for all blocks, and for the sides of each
    near, result = np.empty((block, x.shape[1]), x.dtype), np.empty((block, out.shape[1]), np.float32)
    centre, (inputs, outputs, shifts) = np.empty_like(result), columns
    _fit_signs(words, inputs, x.shape[1])
    _fit_signs(words, outputs, out.shape[1])
    _fit_signs(words, shifts, out.shape[1])
    assert shifts < 0 or (shift.size == out.shape[1] and shift.itemsize == 4 and shift.flags.c_contiguous)
    sides = out.shape[0] // x.shape[0]
    for first in range(0, x.shape[0], block):
        source = x[first : first + block]
        count = source.shape[0]
        read = source
        if inputs >= 0:
            read = near[:count]
            _flip(x, first, words, inputs, examples, read)
        # both sides have the same product with the noise: only its sign and scale differ
        product(read, noise, result[:count])
        # the centre's product is computed once and copied, where several sides share their rows
        if sides > 1:
            _centre(source, weight, base, first, centre[:count])
        for side in range(sides):
            target, own = out[side * x.shape[0] + first :][:count], scales[side:]
            if sides > 1:
                target[:] = centre[:count]
            else:
                _centre(source, weight, base, first, target)
            # signs of the outputs are applied after the product, once a row: the noise matrix itself is shared by all directions
            if outputs >= 0:
                _add_flipped(result, result.shape[1], first, words, outputs, examples, own, target)
            else:
                _add_scaled(result[:count], first, words.shape[0], examples, own, nb.float32(1), target)
            if shifts >= 0:
                _add_flipped(shift, 0, first, words, shifts, examples, own, target)
            if bias.size:
                _add_bias(bias, target)


@_reordered
def _dot(x, row, factors, direction, column):
    # the order of this sum is LLVM's: a fitness depends on it in the last bits, an update never does
    total = np.float32(0)
    for c in range(nb.uintp(x.shape[1])):
        total += x[row, c] * factors[direction, column + c]
    return total


@_compiled
def add_low_rank_half(centre, x, factors, vectors, read, written, rank, share, scales, examples, out):
    """Set ``out`` (n, O) to centre + scale share (sum over q of (x b_q) a_q) + scale vectors, summed in float32, rounded once.

    centre (m, O), x (m, I) and ``out`` words of bfloat16; m = n, or the rows of one side for all of them. ``factors`` and vectors
    as in :func:`low_rank_layer`.
    """
    directions, width = nb.uint32(factors.shape[0]), out.shape[1]
    none = np.empty((0, width), np.float32)
    _fit(x, np.empty((width, x.shape[1]), np.uint16), none, none[:, 0], factors.shape[0], scales, examples, 1, out)
    _fit_vectors(vectors, factors.shape[0], out)
    assert centre.shape == (x.shape[0], width) and factors.flags.c_contiguous and factors.itemsize == 4
    assert 0 <= read <= factors.shape[1] - rank * x.shape[1] and 0 <= written <= factors.shape[1] - rank * width
    noise, moved, line = nb.uintp(factors.ctypes.data), nb.uintp(vectors.ctypes.data), nb.uintp(vectors.strides[0])
    near, wide, amounts = np.empty((1, x.shape[1]), np.float32), np.empty((1, width), np.float32), np.empty(rank, np.float32)
    target = nb.uintp(wide.ctypes.data)
    for row in range(x.shape[0]):
        place = nb.uint32(row) // nb.uint32(examples)
        direction = place % directions
        for c in range(x.shape[1]):
            near[0, c] = widened(x[row, c])
        for q in range(rank):
            # one number for each rank: the row meets b once and both sides use it
            amounts[q] = share * _dot(near, nb.uintp(0), factors, direction, nb.uintp(read + q * x.shape[1]))
        for side in range(out.shape[0] // x.shape[0]):
            scale = scales[place // directions + nb.uint32(side)]
            # a sum in bfloat16, which has 8 significant bits, would lose small noise
            for c in range(width):
                wide[0, c] = widened(centre[row, c])
            for q in range(rank):
                at = nb.uintp(direction) * nb.uintp(factors.shape[1]) + nb.uintp(written + q * width)
                add_row(noise + _FLOAT * at, width, scale * amounts[q], target)
            if vectors.shape[1]:
                add_row(moved + line * nb.uintp(direction), width, scale, target)
            here = side * x.shape[0] + row
            _round(wide, out[here : here + 1])


@_compiled
def low_rank_layer(x, weight, base, factors, bias, vectors, read, written, rank, share, scales, examples, block, out):
    """Set ``out`` = x weight^T + scale * share * sum over q of (x b_q) a_q + bias + scale * vectors.

    ``factors`` (D, W): b of all ranks from column ``read`` on, a of all ranks from column ``written`` on. x has the rows of
    ``out``, or those of one side for all of them.
    """
    _fit(x, weight, base, bias, factors.shape[0], scales, examples, block, out)
    _fit_vectors(vectors, factors.shape[0], out)
    assert factors.flags.c_contiguous and factors.itemsize == 4
    assert 0 <= read <= factors.shape[1] - rank * x.shape[1] and 0 <= written <= factors.shape[1] - rank * out.shape[1]
    directions, width = nb.uint32(factors.shape[0]), out.shape[1]
    noise, centre = nb.uintp(factors.ctypes.data), np.empty((block, width), np.float32)
    sides = out.shape[0] // x.shape[0]
    for first in range(0, x.shape[0], block):
        source = x[first : first + block]
        count = source.shape[0]
        if sides > 1:
            _centre(source, weight, base, first, centre[:count])
        for side in range(sides):
            target, own = out[side * x.shape[0] + first :][:count], scales[side:]
            if sides > 1:
                target[:] = centre[:count]
            else:
                _centre(source, weight, base, first, target)
            # the block's outputs are still in the cache when the ranks are added
            line = nb.uintp(target.ctypes.data)
            for row in range(count):
                place = nb.uint32(first + row) // nb.uint32(examples)
                direction, scale = place % directions, own[place // directions]
                for q in range(rank):
                    amount = share * scale * _dot(source, nb.uintp(row), factors, direction, nb.uintp(read + q * x.shape[1]))
                    at = nb.uintp(direction) * nb.uintp(factors.shape[1]) + nb.uintp(written + q * width)
                    add_row(noise + _FLOAT * at, width, amount, line + _FLOAT * nb.uintp(width * row))
            if vectors.shape[1]:
                _add_vectors(vectors, first, examples, own, target)
            if bias.size:
                _add_bias(bias, target)
