"""Products of rows with a matrix by tiles of sums in registers: a vector has one number of each of LANES outputs (numba).

With AVX-512 layers take 0.55 to 0.84 of their time with MKL on an AMD EPYC, and generations 0.68 to 0.88 on a loaded Intel Xeon;
with AVX2 tiles take longer. Sums go along the inputs in order, so no bit of one depends on other rows.
"""

import numba as nb
from numba.core import cgutils, types

from neuro_cli.core.kernels.lanes import added, put_in_lanes, same, spread, vector_at
from neuro_cli.core.kernels.vectors import LANES, by_address, flipped_one, has_avx512, size

NEAR = 2**14  # weights of a member with dense noise that are computed at a time
ROWS, PANELS = 8, 2  # rows, and vectors of outputs, of a tile: half of the 32 registers are sums
FASTER = has_avx512()  # tiles beat torch's BLAS here
_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_FLOAT, _LINE, _SOME = nb.uintp(4), nb.uintp(4 * LANES), nb.uintp(4 * LANES * PANELS)


def tile(panels: int, rows: int = ROWS):
    """Return a law of tiles of so many vectors of outputs and rows."""

    @by_address(*[types.uintp] * 8)
    def law(builder, x, step, depth, panel, apart, bias, out, width):
        """Write products of ``rows`` rows x, ``step`` bytes apart, plus bias, to rows ``out``, ``width`` bytes apart.

        Panels (depth, LANES) of a matrix are ``apart`` bytes apart; the bias has LANES numbers for each.
        """
        sums = [[cgutils.alloca_once_value(builder, same(0)) for _ in range(panels)] for _ in range(rows)]
        begins = [builder.add(x, builder.mul(step, size(row))) for row in range(rows)]
        firsts = [builder.add(panel, builder.mul(apart, size(number))) for number in range(panels)]
        with cgutils.for_range(builder, depth) as loop:
            place, line = builder.mul(loop.index, size(4)), builder.mul(loop.index, size(4 * LANES))
            vectors = [builder.load(vector_at(builder, builder.add(first, line)), align=4) for first in firsts]
            for begin, own in zip(begins, sums, strict=True):
                factor = spread(builder, builder.add(begin, place))
                for vector, total in zip(vectors, own, strict=True):
                    builder.store(added(builder, builder.load(total), factor, vector), total)
        for row, own in enumerate(sums):
            target = builder.add(out, builder.mul(width, size(row)))
            for number, total in enumerate(own):
                shifted = builder.fadd(builder.load(total), builder.load(vector_at(builder, bias, number), align=4))
                builder.store(shifted, vector_at(builder, target, number), align=4)

    return law


whole_tile, one_panel = tile(PANELS), tile(1)


@_compiled
def copy(source, target, count):
    """Copy ``count`` numbers from one address to another."""
    for _ in range(count):
        flipped_one(source, nb.uint32(0), target)
        source, target = source + _FLOAT, target + _FLOAT


@_compiled
def multiply_tiles(x, points, inner, matrix, count, panels, bias, out, width, spare):
    """Set ``count`` columns of rows ``out``, ``width`` bytes apart, to x (points, inner) matrix (count, inner)^T + bias.

    Addresses, but for numbers of rows and columns and ``spare`` (ROWS, LANES); at least ROWS points. ``panels`` has room for a
    matrix (inner, count up to a multiple of LANES), ``bias`` as many numbers.
    """
    step, apart, depth = _FLOAT * nb.uintp(inner), _LINE * nb.uintp(inner), nb.uintp(inner)
    for first in range(0, count, LANES):
        lines = matrix + nb.uintp(first) * step
        put_in_lanes(lines, step, min(LANES, count - first), inner, panels + nb.uintp(first // LANES) * apart)
    complete = count // LANES
    for row in range(0, points, ROWS):
        first = nb.uintp(min(row, points - ROWS))  # the last rows twice: to the same bits
        source, target, panel, shift = x + first * step, out + first * width, panels, bias
        for _ in range(complete // PANELS):
            whole_tile(source, step, depth, panel, apart, shift, target, width)
            panel, shift, target = panel + nb.uintp(PANELS) * apart, shift + _SOME, target + _SOME
        for _ in range(complete % PANELS):
            one_panel(source, step, depth, panel, apart, shift, target, width)
            panel, shift, target = panel + apart, shift + _LINE, target + _LINE
        if complete * LANES < count:  # lanes without an output go nowhere
            one_panel(source, step, depth, panel, apart, shift, nb.uintp(spare.ctypes.data), _LINE)
            for line in range(ROWS):
                copy(nb.uintp(spare[line].ctypes.data), target + nb.uintp(line) * width, count - complete * LANES)


@_compiled
def displace(given, noise, scale, out):
    """Set ``out`` (n,) = given (n,) + scale * noise (n,)."""
    for i in range(out.size):
        out[i] = given[i] + scale * noise[i]


@_compiled
def lines_of(inner, count):
    """Return lines of a matrix (count, inner) that are computed at a time."""
    some = min(count, max(1, NEAR // inner))
    return (some + LANES * PANELS - 1) // (LANES * PANELS) * LANES * PANELS


@_compiled
def multiply_own(x, points, inner, centre, noise, scale, count, near, panels, line, out, spare):
    """Set rows (points, count) at ``out`` to rows x by a matrix centre + scale noise, (count inner,) each, and ``line``.

    x and ``out``: addresses; at least ROWS points. ``near`` and ``panels`` have room for lines_of(inner, count) lines, ``line``
    for LANES numbers more than ``count``. A core multiplies by some lines before they leave the caches.
    """
    some = lines_of(inner, count)
    for low in range(0, count, some):
        length = min(some, count - low)
        begin, end = low * inner, (low + length) * inner
        displace(centre[begin:end], noise[begin:end], scale, near[: end - begin])
        multiply_tiles(
            x, points, inner, nb.uintp(near.ctypes.data), length, nb.uintp(panels.ctypes.data), nb.uintp(line[low:].ctypes.data),
            out + _FLOAT * nb.uintp(low), _FLOAT * nb.uintp(count), spare,
        )  # fmt: skip
