"""Sums of weighted sign matrices by tables, in fewer instructions than products, for registers that fit a table (AVX-512).

GROUP directions have 2^GROUP sums of +- their weights, which are the table. The signs of a row and of a column are bits; their
xor is the index of the sum for that place. So three instructions replace GROUP products of LANES columns. The bits are those of
:mod:`neuro_cli.core.kernels.products`, which serves other processors.

Legend: D directions; words (D, W) uint32 of signs, +1 where a bit is 0.
"""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.products import copy
from neuro_cli.core.kernels.vectors import COLUMNS, GROUP, ROWS, has_avx512, signed_sums

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)

NEAR = 64  # groups whose tables, and signs of a tile, stay in a core's nearest cache while all tiles pass
SERVES = has_avx512()


@_compiled
def _patterns(words, out):
    """Set ``out`` (groups, at least 32 W) int32 to the signs of each row or column in a group's directions, a bit each."""
    # the first direction of a group exists; the loop asks for the others
    assert out.shape[0] == -(-words.shape[0] // GROUP) and 32 * words.shape[1] <= out.shape[1]
    one = nb.uint32(1)
    for group in range(out.shape[0]):
        first = group * GROUP
        for w in range(words.shape[1]):
            part = out[group, 32 * w : 32 * w + 32]
            # written out, so that all signs of a thing are put together in a register
            a, b, c, d, e = words[first, w], nb.uint32(0), nb.uint32(0), nb.uint32(0), nb.uint32(0)
            if first + 1 < words.shape[0]:
                b = words[first + 1, w]
            if first + 2 < words.shape[0]:
                c = words[first + 2, w]
            if first + 3 < words.shape[0]:
                d = words[first + 3, w]
            if first + 4 < words.shape[0]:
                e = words[first + 4, w]
            for bit in range(nb.uint32(32)):
                k = nb.uint32(bit)
                low = ((a >> k) & one) | (((b >> k) & one) << one) | (((c >> k) & one) << nb.uint32(2))
                part[bit] = low | (((d >> k) & one) << nb.uint32(3)) | (((e >> k) & one) << nb.uint32(4))


@_compiled
def _tables(weights, out):
    """Set ``out`` (groups, 2^GROUP) to the sums of a group's weights, each with the sign of its bit."""
    for d in range(weights.size):  # out has all groups
        line, place = out[d // GROUP], d % GROUP
        for pattern in range(line.size):
            line[pattern] += -weights[d] if (pattern >> place) & 1 else weights[d]


@_compiled
def _sum(tables, rows, columns, out):
    """Add to each place of ``out`` the sums that the ``tables`` have for its row's and column's patterns, of whole tiles."""
    assert tables.shape[1] == 2**GROUP and rows.shape[0] == columns.shape[0] == tables.shape[0]
    assert -(-out.shape[0] // ROWS) * ROWS <= rows.shape[1] and -(-out.shape[1] // COLUMNS) * COLUMNS <= columns.shape[1]
    # addresses: patterns are 4 bytes, and below 2^GROUP, as is a row's xor a column's
    assert rows.itemsize == columns.itemsize == out.itemsize == 4 and out.flags.c_contiguous
    assert rows.flags.c_contiguous and columns.flags.c_contiguous and tables.flags.c_contiguous
    steps = (nb.uintp(rows.shape[1]), nb.uintp(columns.shape[1]))
    edge = np.zeros((ROWS, COLUMNS), np.float32)  # an incomplete tile, summed in the same order as a complete one
    for begin in range(0, tables.shape[0], NEAR):
        groups, table = min(NEAR, tables.shape[0] - begin), tables[begin].ctypes.data
        lines, line = rows[begin].ctypes.data, columns[begin].ctypes.data
        for first in range(0, out.shape[1], COLUMNS):
            for low in range(0, out.shape[0], ROWS):
                whole = first + COLUMNS <= out.shape[1] and low + ROWS <= out.shape[0]
                target, width = nb.uintp(edge.ctypes.data), nb.uintp(COLUMNS)
                if whole:
                    target = nb.uintp(out.ctypes.data) + nb.uintp(4 * (low * out.shape[1] + first))
                    width = nb.uintp(out.shape[1])
                else:
                    copy(out[low:, first:], edge)
                signed_sums(
                    nb.uintp(table), nb.uintp(groups), nb.uintp(lines) + nb.uintp(4 * low),
                    nb.uintp(line) + nb.uintp(4 * first), steps, target, width,
                )  # fmt: skip
                if not whole:
                    copy(edge, out[low:, first:])


def add_sign_product(rows, columns, weights, out):
    """Add to ``out`` float32, contiguous, the sum over directions of weights[d] times the outer product of its signs.

    Of words ``rows`` and ``columns``, those of the lines and columns of ``out``.
    """
    assert len(rows) == len(columns) == len(weights)
    groups = -(-len(weights) // GROUP)
    tables = np.zeros((groups, 2**GROUP), np.float32)
    of_rows, of_columns = (_room(groups, words) for words in (rows, columns))
    _tables(weights, tables)
    _patterns(rows, of_rows)
    _patterns(columns, of_columns)
    _sum(tables, of_rows, of_columns, out)


def _room(groups, words):
    width = -(-32 * words.shape[1] // COLUMNS) * COLUMNS  # whole words, and whole tiles
    return (np.empty if width == 32 * words.shape[1] else np.zeros)((groups, width), np.int32)
