"""Products of few rows with the lines of a matrix: a vector has one number of each of LANES rows, so no sum crosses its lanes.

A BLAS takes a microsecond to begin a product, as long as these loops take for all of a small one. All arguments that name arrays
are addresses of float32 numbers, ``step`` bytes from a row or line to the next; who calls asserts that they lie in arrays.
"""

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from neuro_cli.core.kernels.vectors import LANES, by_address, everywhere, flipped_one, has_avx512, size

COLUMNS = 8  # numbers of a row that change places at a time
# lines of a matrix that meet LANES rows at a time: as many sums as registers hold. No bit of a sum depends on their number
LINES = 8 if has_avx512() else 4
_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_FLOAT, _LINE = nb.uintp(4), nb.uintp(4 * LANES)
_F32, _I32 = ir.FloatType(), ir.IntType(32)
_FLOATS, _HALF = ir.VectorType(_F32, LANES), ir.VectorType(_F32, COLUMNS)


def same(value: float) -> ir.Constant:
    """Return a vector with ``value`` in all lanes of a row product."""
    return ir.Constant(_FLOATS, [float(np.float32(value))] * LANES)


def vector_at(builder: ir.IRBuilder, address: ir.Value, number: int = 0, kind: ir.Type = _FLOATS) -> ir.Value:
    """Return a pointer to the vector that lies ``number`` lines of LANES numbers behind an address."""
    return builder.inttoptr(builder.add(address, size(4 * LANES * number)), kind.as_pointer())


def spread(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Return a vector with the number at an address in all lanes."""
    return everywhere(builder, builder.load(builder.inttoptr(address, _F32.as_pointer()), align=4))


def added(builder: ir.IRBuilder, total: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
    """Return total + one * other, by one operation where the processor has it."""
    return builder.fadd(total, builder.fmul(one, other, flags=("contract",)), flags=("contract",))


def _chosen(builder: ir.IRBuilder, one: ir.Value, other: ir.Value, order: list[int]) -> ir.Value:
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_I32, len(order)), order))


def _turned(builder: ir.IRBuilder, lines: list[ir.Value]) -> list[ir.Value]:
    """Exchange rows and columns of both halves of COLUMNS vectors: blocks of 4 x 4 change places, then of 2 x 2, then numbers."""
    for step in (4, 2, 1):
        for row in range(COLUMNS):
            if not row & step:
                one, other = lines[row], lines[row + step]
                places = [(lane, bool(lane & step)) for lane in range(LANES)]
                lines[row] = _chosen(builder, one, other, [LANES + lane - step if high else lane for lane, high in places])
                lines[row + step] = _chosen(builder, one, other, [LANES + lane if high else lane + step for lane, high in places])
    return lines


def _rows(builder: ir.IRBuilder, address: ir.Value, step: ir.Value) -> list[ir.Value]:
    """Return pointers to COLUMNS numbers of LANES rows, ``step`` bytes apart."""
    return [builder.inttoptr(builder.add(address, builder.mul(step, size(row))), _HALF.as_pointer()) for row in range(LANES)]


@by_address(*[types.uintp] * 3)
def to_lanes(builder, source, step, target):
    """Write COLUMNS numbers of LANES rows, ``step`` bytes apart, to (COLUMNS, LANES) at address ``target``."""
    rows = [builder.load(place, align=4) for place in _rows(builder, source, step)]
    # each vector has a row of the first half of rows, and one of the second
    lines = [_chosen(builder, rows[row], rows[row + COLUMNS], list(range(LANES))) for row in range(COLUMNS)]
    for column, line in enumerate(_turned(builder, lines)):
        builder.store(line, vector_at(builder, target, column), align=4)


@by_address(*[types.uintp] * 3)
def from_lanes(builder, source, target, step):
    """Write numbers (COLUMNS, LANES) at address ``source`` to COLUMNS numbers of LANES rows, ``step`` bytes apart."""
    lines = _turned(builder, [builder.load(vector_at(builder, source, column), align=4) for column in range(COLUMNS)])
    for row, place in enumerate(_rows(builder, target, step)):
        half, line = divmod(row, COLUMNS)
        first = half * COLUMNS
        builder.store(_chosen(builder, lines[line], lines[line], list(range(first, first + COLUMNS))), place, align=4)


def _products(lines: int):
    @by_address(*[types.uintp] * 5)
    def law(builder, rows, depth, matrix, step, out):
        """Write products of rows (depth, LANES) with ``lines`` lines of a matrix, ``step`` bytes apart, to (lines, LANES)."""
        sums = [cgutils.alloca_once_value(builder, same(0)) for _ in range(lines)]
        begins = [builder.add(matrix, builder.mul(step, size(line))) for line in range(lines)]
        with cgutils.for_range(builder, depth) as loop:
            numbers = builder.load(vector_at(builder, builder.add(rows, builder.mul(loop.index, size(4 * LANES)))), align=4)
            place = builder.mul(loop.index, size(4))
            for begin, total in zip(begins, sums, strict=True):
                factor = spread(builder, builder.add(begin, place))
                builder.store(added(builder, builder.load(total), numbers, factor), total)
        for line, total in enumerate(sums):
            builder.store(builder.load(total), vector_at(builder, out, line), align=4)

    return law


some_products, one_product = _products(LINES), _products(1)


@_compiled
def put_in_lanes(rows, step, count, width, near):
    """Set ``near`` (width, LANES) to ``count`` <= LANES rows of ``width`` numbers; lanes beyond them stay as they are."""
    done = width // COLUMNS * COLUMNS if count == LANES else 0
    for column in range(0, done, COLUMNS):
        to_lanes(rows + _FLOAT * nb.uintp(column), step, near + _LINE * nb.uintp(column))
    for row in range(count):
        for column in range(done, width):
            at = step * nb.uintp(row) + _FLOAT * nb.uintp(column)
            flipped_one(rows + at, nb.uint32(0), near + _LINE * nb.uintp(column) + _FLOAT * nb.uintp(row))


@_compiled
def take_from_lanes(near, count, width, rows, step):
    """Set ``count`` <= LANES rows of ``width`` numbers to the first lanes of ``near`` (width, LANES)."""
    done = width // COLUMNS * COLUMNS if count == LANES else 0
    for column in range(0, done, COLUMNS):
        from_lanes(near + _LINE * nb.uintp(column), rows + _FLOAT * nb.uintp(column), step)
    for row in range(count):
        for column in range(done, width):
            at = step * nb.uintp(row) + _FLOAT * nb.uintp(column)
            flipped_one(near + _LINE * nb.uintp(column) + _FLOAT * nb.uintp(row), nb.uint32(0), rows + at)


@_compiled
def multiply(near, depth, matrix, step, count, out):
    """Set ``out`` (count, LANES) to the products of ``near`` (depth, LANES) with the lines (count, depth) of a matrix."""
    for _ in range(count // LINES):
        some_products(near, nb.uintp(depth), matrix, step, out)
        matrix, out = matrix + nb.uintp(LINES) * step, out + nb.uintp(LINES) * _LINE
    for _ in range(count % LINES):
        one_product(near, nb.uintp(depth), matrix, step, out)
        matrix, out = matrix + step, out + _LINE
