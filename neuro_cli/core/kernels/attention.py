"""Attention of many small heads on a CPU: a vector holds one number of LANES queries, so heads of few numbers fill the registers.

torch's products for a head of 8 numbers leave most of a register empty. Bits depend neither on the threads nor on other heads.
"""

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from neuro_cli.core.kernels.lanes import added, multiply, put_in_lanes, same, spread, take_from_lanes, vector_at
from neuro_cli.core.kernels.vectors import LANES, by_address, size

PART = 8  # numbers of a value that are summed at a time
_NUMBERS = nb.types.Array(nb.float32, 4, "A")  # one compilation for all layouts: the loops read by addresses
_compiled = nb.njit([(_NUMBERS, _NUMBERS, _NUMBERS, nb.float32, nb.boolean, _NUMBERS)], nogil=True, cache=True, boundscheck=False)
_FLOAT, _LINE = nb.uintp(4), nb.uintp(4 * LANES)

# exp(x) = 2^n exp(r), r = x - n ln 2 in two parts, exp(r) by its Taylor series up to r^6: an error of 2e-7 of the result
_LOG2_E, _LN2_HIGH, _LN2_LOW, _ROUNDING = 1.44269504, 0.693359375, -2.12194440e-4, 1.5 * 2.0**23
_SERIES = tuple(1 / factor for factor in (720, 120, 24, 6, 2, 1, 1))
_LEAST = -87.0  # below it exp counts as zero
_INTS = ir.VectorType(ir.IntType(32), LANES)


def _exponential(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return exp(x) of numbers that are not above 0; of NaN it is NaN."""
    shifted = added(builder, same(_ROUNDING), x, same(_LOG2_E))
    whole = builder.fsub(shifted, same(_ROUNDING))
    rest = added(builder, added(builder, x, whole, same(-_LN2_HIGH)), whole, same(-_LN2_LOW))
    result = same(_SERIES[0])
    for factor in _SERIES[1:]:
        result = added(builder, same(factor), result, rest)
    bits = builder.shl(builder.bitcast(shifted, _INTS), ir.Constant(_INTS, [23] * LANES))
    power = builder.bitcast(builder.add(bits, ir.Constant(_INTS, [127 << 23] * LANES)), result.type)
    return builder.select(builder.fcmp_ordered("<", x, same(_LEAST)), same(0), builder.fmul(result, power))


@by_address(*[types.uintp] * 3)
def weights(builder, scores, count, sums):
    """Replace ``scores`` (count, LANES) by exp(score - the largest of a lane), and write each lane's sum to ``sums`` (LANES,)."""
    largest, total = cgutils.alloca_once_value(builder, same(-np.inf)), cgutils.alloca_once_value(builder, same(0))
    with cgutils.for_range(builder, count) as loop:
        score = builder.load(vector_at(builder, builder.add(scores, builder.mul(loop.index, size(4 * LANES)))), align=4)
        before = builder.load(largest)
        builder.store(builder.select(builder.fcmp_ordered(">", score, before), score, before), largest)
    with cgutils.for_range(builder, count) as loop:
        place = vector_at(builder, builder.add(scores, builder.mul(loop.index, size(4 * LANES))))
        weight = _exponential(builder, builder.fsub(builder.load(place, align=4), builder.load(largest)))
        builder.store(weight, place, align=4)
        builder.store(builder.fadd(builder.load(total), weight), total)
    builder.store(builder.load(total), vector_at(builder, sums), align=4)


def _means(part: int):
    @by_address(*[types.uintp] * 6)
    def law(builder, shares, count, sums, value, step, out):
        """Write means of ``part`` numbers of values, ``step`` bytes apart, by ``shares`` (count, LANES) to (part, LANES)."""
        totals = [cgutils.alloca_once_value(builder, same(0)) for _ in range(part)]
        with cgutils.for_range(builder, count) as loop:
            share = builder.load(vector_at(builder, builder.add(shares, builder.mul(loop.index, size(4 * LANES)))), align=4)
            line = builder.add(value, builder.mul(loop.index, step))
            for place, total in enumerate(totals):
                number = spread(builder, builder.add(line, size(4 * place)))
                builder.store(added(builder, builder.load(total), share, number), total)
        whole = builder.load(vector_at(builder, sums), align=4)
        for place, total in enumerate(totals):
            builder.store(builder.fdiv(builder.load(total), whole), vector_at(builder, out, place), align=4)

    return law


some_means, one_mean = _means(PART), _means(1)


@_compiled
def attended(query, key, value, scale, causal, out):
    """Set ``out`` (n, H, L, V) to the means of ``value`` (n, H, T, V) by the softmax of scale * query key^T, all float32.

    ``query`` (n, H, L, K), ``key`` (n, H, T, K); numbers of a position lie side by side. ``causal``: query l sees keys up to l.
    """
    count, heads, length, depth = query.shape
    seen, width = key.shape[2], value.shape[3]
    assert key.shape == (count, heads, seen, depth) and value.shape == (count, heads, seen, width)
    assert out.shape == (count, heads, length, width) and min(seen, depth, width) > 0
    assert query.itemsize == key.itemsize == value.itemsize == out.itemsize == 4
    assert (depth == 1 or query.strides[3] == key.strides[3] == 4) and (width == 1 or value.strides[3] == out.strides[3] == 4)
    near, scores = np.zeros((depth, LANES), np.float32), np.empty((seen, LANES), np.float32)
    sums, means = np.empty(LANES, np.float32), np.empty((width, LANES), np.float32)
    # addresses: a slice of an array for each block of queries would take as long as its products
    queries, shares = nb.uintp(near.ctypes.data), nb.uintp(scores.ctypes.data)
    total, answers = nb.uintp(sums.ctypes.data), nb.uintp(means.ctypes.data)
    asked, to_key, to_value, made = (
        nb.uintp(query.strides[2]), nb.uintp(key.strides[2]), nb.uintp(value.strides[2]), nb.uintp(out.strides[2]),
    )  # fmt: skip
    for row in range(count):
        for head in range(heads):
            begin, keys = nb.uintp(query[row, head].ctypes.data), nb.uintp(key[row, head].ctypes.data)
            values, end = nb.uintp(value[row, head].ctypes.data), nb.uintp(out[row, head].ctypes.data)
            for first in range(0, length, LANES):
                some = min(LANES, length - first)
                put_in_lanes(begin + asked * nb.uintp(first), asked, some, depth, queries)
                for d in range(depth):
                    for lane in range(LANES):
                        near[d, lane] *= scale
                visible = min(seen, first + some) if causal else seen
                multiply(queries, depth, keys, to_key, visible, shares)
                if causal:
                    for k in range(first + 1, visible):
                        for lane in range(min(some, k - first)):
                            scores[k, lane] = -np.inf
                weights(shares, nb.uintp(visible), total)
                source, target = values, answers
                for _ in range(width // PART):
                    some_means(shares, nb.uintp(visible), total, source, to_value, target)
                    source, target = source + _FLOAT * nb.uintp(PART), target + _LINE * nb.uintp(PART)
                for _ in range(width % PART):
                    one_mean(shares, nb.uintp(visible), total, source, to_value, target)
                    source, target = source + _FLOAT, target + _LINE
                take_from_lanes(answers, some, width, end + made * nb.uintp(first), made)
    return near[0, 0] + scores[0, 0] + sums[0] + means[0, 0]  # they stay where they are until here
