"""Sums of weighted outer products in one order on every processor: each product and each sum is rounded by itself.

A BLAS adds up a matrix product in the order that suits the instructions, and fuses products with sums, so its bits depend on the
processor. Here GROUP terms are added one after the other, and then their total to the sum. The order depends neither on the
length of vector registers nor on the tiles, and no product is fused with a sum.

A tile of the sum stays in registers while terms, packed in a core's caches, are added to it. Legend: D directions, R ranks;
terms k = d R + q in that order.
"""

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from neuro_cli.core.kernels.vectors import LANES, by_address, everywhere, has_avx512, size

ROWS = 4
NEAR, PANEL = 32, 256

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_F32 = ir.FloatType()


GROUP = 5  # terms that are added to each other before their total is added to the sum: part of the definition of its bits
PARTS = 2 if has_avx512() else 1  # vectors in a tile's row: without AVX-512 the registers have room for one
COLUMNS = PARTS * LANES


@by_address(*[types.uintp] * 5)
def add_tile(builder, left, right, groups, out, width):
    """Add the terms of ``groups`` to a tile (ROWS, COLUMNS) of float32 at address ``out``, in lines of ``width`` numbers.

    ``left``, ``right``: addresses of numbers (groups, ROWS, GROUP) and (groups, GROUP, COLUMNS).
    """
    floats = ir.VectorType(_F32, LANES)
    # unrolled while the code is generated, so that each sum has a register of its own
    places = [(row, part) for row in range(ROWS) for part in range(PARTS)]

    def pointer(place: ir.Value, kind: ir.Type) -> ir.Value:
        return builder.inttoptr(place, kind.as_pointer())

    def spread(place: ir.Value) -> ir.Value:
        return everywhere(builder, builder.load(pointer(place, _F32), align=4))

    def target(row: int, part: int) -> ir.Value:
        line = builder.mul(width, size(4 * row))
        return pointer(builder.add(out, builder.add(line, size(4 * LANES * part))), floats)

    # LLVM turns these slots of the stack into registers
    sums = {place: cgutils.alloca_once(builder, floats) for place in places}
    for place, total in sums.items():
        builder.store(builder.load(target(*place), align=4), total)
    with cgutils.for_range(builder, groups) as loop:
        a = builder.add(left, builder.mul(loop.index, size(4 * ROWS * GROUP)))
        b = builder.add(right, builder.mul(loop.index, size(4 * GROUP * COLUMNS)))
        line = {
            (term, part): builder.load(pointer(builder.add(b, size(4 * (term * COLUMNS + part * LANES))), floats), align=4)
            for part in range(PARTS)
            for term in range(GROUP)
        }
        for row in range(ROWS):
            factors = [spread(builder.add(a, size(4 * (row * GROUP + term)))) for term in range(GROUP)]
            for part in range(PARTS):
                terms = [builder.fmul(factor, line[term, part]) for term, factor in enumerate(factors)]
                # plain fmul and fadd without flags: LLVM may neither fuse nor reorder them, which is the point of this file
                group = terms[0]
                for term in terms[1:]:
                    group = builder.fadd(group, term)
                builder.store(builder.fadd(builder.load(sums[row, part]), group), sums[row, part])
    for place, total in sums.items():
        builder.store(builder.load(total), target(*place), align=4)


@_compiled
def _pack_left(source, first, step, rank, weights, low, count, out):
    """Set ``out`` (tiles, groups, ROWS, GROUP) to weights[d] source[d, first + q step + row] for rows below ``count``, else 0.

    The first term is number ``low``; those beyond the last direction are 0.
    """
    # terms beyond the last direction are zeros, which leave a sum as it is
    out[:] = 0
    for term in range(min(out.shape[1] * GROUP, source.shape[0] * rank - low)):
        d, q = (low + term) // rank, (low + term) % rank
        group, place, weight = term // GROUP, term % GROUP, weights[d]
        line = source[d, first + q * step : first + q * step + count]
        for row in range(count):
            out[row // ROWS, group, row % ROWS, place] = weight * line[row]


@_compiled
def _pack_right(source, first, step, rank, low, count, out):
    """Set ``out`` (tiles, groups, GROUP, COLUMNS) to source[d, first + q step + column] for columns below ``count``, else 0."""
    terms = min(out.shape[1] * GROUP, source.shape[0] * rank - low)
    for tile in range(out.shape[0]):
        begin = tile * COLUMNS
        width = min(COLUMNS, count - begin)
        if width < COLUMNS or terms < out.shape[1] * GROUP:
            out[tile] = 0
        for term in range(terms):
            d, q = (low + term) // rank, (low + term) % rank
            line, near = source[d, first + q * step + begin :], out[tile, term // GROUP, term % GROUP]
            # a constant length lets LLVM copy by vectors
            if width == COLUMNS:
                for c in range(COLUMNS):
                    near[c] = line[c]
            else:
                for c in range(width):
                    near[c] = line[c]


@_compiled
def copy(source, target):
    """Copy the common rows and columns of ``source`` to ``target``."""
    for row in range(min(source.shape[0], target.shape[0])):
        for column in range(min(source.shape[1], target.shape[1])):
            target[row, column] = source[row, column]


@_compiled
def _add_tiles(left, right, out):
    """Add the terms of ``left`` (row tiles, groups, ..) and ``right`` (column tiles, groups, ..) to ``out``."""
    assert left.shape[1] == right.shape[1] and left.flags.c_contiguous and right.flags.c_contiguous
    assert left.shape[0] * ROWS >= out.shape[0] and right.shape[0] * COLUMNS >= out.shape[1]
    assert left.itemsize == right.itemsize == out.itemsize == 4 and (out.shape[1] == 1 or out.strides[1] == 4)
    edge = np.empty((ROWS, COLUMNS), np.float32)  # an incomplete tile, summed in the same order as a complete one
    groups, line, near = nb.uintp(left.shape[1]), nb.uintp(out.strides[0]), nb.uintp(edge.ctypes.data)
    rows, target = nb.uintp(left.ctypes.data), nb.uintp(out.ctypes.data)
    for low in range(0, out.shape[0], ROWS):
        columns = nb.uintp(right.ctypes.data)
        for first in range(0, out.shape[1], COLUMNS):
            if first + COLUMNS <= out.shape[1] and low + ROWS <= out.shape[0]:
                place = target + line * nb.uintp(low) + nb.uintp(4 * first)
                add_tile(rows, columns, groups, place, line // nb.uintp(4))
            else:
                edge[:] = 0
                copy(out[low:, first:], edge)
                add_tile(rows, columns, groups, near, nb.uintp(COLUMNS))
                copy(edge, out[low:, first:])
            columns += groups * nb.uintp(4 * GROUP * COLUMNS)
        rows += groups * nb.uintp(4 * ROWS * GROUP)


@_compiled
def add_products(left, written, to_next, right, read, step, rank, weights, out):
    """Add weights[d] a_dq b_dq^T, summed over directions d and ranks q, to ``out`` (O, I) float32.

    a_dq begins at column written + q to_next of row d of ``left`` (D, W), b_dq at column read + q step of ``right`` (D, W').
    """
    height, width = out.shape
    assert left.shape[0] == right.shape[0] == weights.size and rank > 0 and min(to_next, step) >= 0
    assert 0 <= written <= left.shape[1] - (rank - 1) * to_next - height
    assert 0 <= read <= right.shape[1] - (rank - 1) * step - width
    terms = weights.size * rank
    most = min(NEAR, -(-terms // GROUP))
    rows = np.empty((-(-height // ROWS), most, ROWS, GROUP), np.float32)
    columns = np.empty((-(-min(PANEL, width) // COLUMNS), most, GROUP, COLUMNS), np.float32)
    # panels and blocks of terms fit in the caches; the order of sums depends on neither
    for first in range(0, width, PANEL):
        count = min(PANEL, width - first)
        for low in range(0, terms, NEAR * GROUP):
            groups = min(NEAR, -(-(terms - low) // GROUP))
            a, b = rows, columns[: -(-count // COLUMNS)]
            if groups < most:
                a = np.empty((rows.shape[0], groups, ROWS, GROUP), np.float32)
                b = np.empty((b.shape[0], groups, GROUP, COLUMNS), np.float32)
            _pack_left(left, written, to_next, rank, weights, low, height, a)
            _pack_right(right, read + first, step, rank, low, count, b)
            _add_tiles(a, b, out[:, first : first + count])
