"""Compiled loops that write centre plus structured noise for one block of parameters: (rows, width) float32, flat.

Each fills a row of noise and then writes base + scale * noise to ``plus`` and base - scale * noise to ``minus``; an empty
one is left out. ``scale`` has the length of ``base``, or 1 for one scale everywhere. The loops release Python's lock.

No index is checked inside of a loop: shapes are asserted before it, and places are of :func:`neuro_cli.core.rows.random_orders`,
below what they are places of.
"""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.numba_noise import add_moment

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)


@_compiled
def _fit(count, base, scale, plus, minus):
    """Assert that a block, where it exists, has ``count`` numbers."""
    assert base.size == count and (scale.size == 1 or scale.size == count)
    assert (plus.size == 0 or plus.size == count) and (minus.size == 0 or minus.size == count)


@_compiled
def _write(base, scale, start, noise, plus, minus):
    """Write one row, which begins at column ``start``; ``noise`` is scratch afterwards; start + width is in the block.

    The loops of :func:`neuro_cli.core.kernels.numba_noise.perturb` on slices took 1.1 to 1.6 times as long here.
    """
    width = noise.size
    if scale.size == 1:
        for j in range(width):
            noise[j] *= scale[0]
    else:
        for j in range(width):
            noise[j] *= scale[start + j]
    centre = base[start : start + width]
    if plus.size:
        out = plus[start : start + width]
        for j in range(width):
            out[j] = centre[j] + noise[j]
    if minus.size:
        out = minus[start : start + width]
        for j in range(width):
            out[j] = centre[j] - noise[j]


@_compiled
def perturb_flipped(base, scale, shared, rows, columns, plus, minus):
    """Perturb by noise[k, j] = shared[k, j] * rows[k] * columns[j], signs of rows (n,) and columns (width,)."""
    width = columns.size
    _fit(rows.size * width, base, scale, plus, minus)
    assert shared.size == rows.size * width
    noise = np.empty(width, np.float32)
    for k in range(rows.size):
        source, sign = shared[k * width : (k + 1) * width], rows[k]
        for j in range(width):
            noise[j] = source[j] * (sign * columns[j])
        _write(base, scale, k * width, noise, plus, minus)


@_compiled
def perturb_placed(base, scale, shared, factor, from_row, columns, width, plus, minus):
    """Perturb by noise[k, columns[j]] = factor * shared[from_row[k], j], else 0; shared (r, c), columns (c,); -1: no source."""
    _fit(from_row.size * width, base, scale, plus, minus)
    assert shared.shape[1] == columns.size <= width
    noise = np.empty(width, np.float32)
    for k in range(from_row.size):
        noise[:] = 0
        if from_row[k] >= 0:
            source = shared[from_row[k]]
            for j in range(columns.size):
                noise[columns[j]] = factor * source[j]
        _write(base, scale, k * width, noise, plus, minus)


@_compiled
def add_placed(shared, rows, columns, weights, low, high, square, out):
    """Add weights[d] * shared[m, j], squared where asked, to ``out``[rows[d, m] - low, columns[d, j]] for rows in [low, high).

    shared (r, w) float32, rows (D, r), columns (D, w), out (high - low, width) float64. Some rows of ``out`` at a time, which
    stay in the cache while all directions pass.
    """
    assert rows.shape == (weights.size, shared.shape[0]) and columns.shape == (weights.size, shared.shape[1])
    assert out.shape[0] == high - low and columns.shape[1] <= out.shape[1]
    block = 8
    source_of = np.full((rows.shape[0], high - low), -1, np.int32)
    for d in range(rows.shape[0]):
        for m in range(rows.shape[1]):
            if low <= rows[d, m] < high:
                source_of[d, rows[d, m] - low] = m
    for first in range(0, high - low, block):
        for d in range(rows.shape[0]):
            weight, places = weights[d], columns[d]
            for k in range(first, min(first + block, high - low)):
                m = source_of[d, k]
                if m < 0:
                    continue
                source, target = shared[m], out[k]
                for j in range(places.size):
                    value = np.float64(source[j])  # float32 sums of thousands of directions would lose digits
                    target[nb.uint32(places[j])] += weight * (value * value if square else value)


@_compiled
def table_sums(table, offsets, weights, moments, start, out):
    """Set ``out``[k, c] = sum over d of weights[k, d] * moment_k(table[offsets[d] + start + c]), summed in float64.

    ``moments``: 1 for the value, 2 for its square - 1.
    """
    assert weights.shape == (moments.size, offsets.size) and out.shape[0] == moments.size and start >= 0
    for d in range(offsets.size):
        assert 0 <= offsets[d] <= table.size - start - out.shape[1]
    piece = 2048  # columns at once: their sums stay in the cache
    total = np.empty((weights.shape[0], piece), np.float64)
    for low in range(0, out.shape[1], piece):
        length = min(piece, out.shape[1] - low)
        total[:] = 0
        for d in range(offsets.size):
            first = offsets[d] + start + low
            source = table[first : first + length]
            for row in range(weights.shape[0]):
                if weights[row, d] != 0.0:  # all but one of a row of the genetic algorithm are
                    add_moment(source, weights[row, d], moments[row], total[row])
        for row in range(weights.shape[0]):
            for c in range(length):
                out[row, low + c] = np.float32(total[row, c])
