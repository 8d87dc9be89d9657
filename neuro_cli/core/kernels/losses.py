"""Cross-entropy of rows on a CPU, in one pass over them: a vector holds one number of each of LANES rows.

torch copies logits whose classes are not their last dimension, and takes the exponentials of few classes one by one.
"""

import numba as nb
import numpy as np
from numba.core import cgutils, types

from neuro_cli.core.kernels.attention import weights
from neuro_cli.core.kernels.lanes import put_in_lanes, same, vector_at
from neuro_cli.core.kernels.vectors import LANES, by_address, size


@by_address(*[types.uintp] * 3)
def greatest(builder, scores, count, out):
    """Write the greatest of ``scores`` (count, LANES) of each lane to ``out`` (LANES,)."""
    most = cgutils.alloca_once_value(builder, same(-np.inf))
    with cgutils.for_range(builder, count) as loop:
        score = builder.load(vector_at(builder, builder.add(scores, builder.mul(loop.index, size(4 * LANES)))), align=4)
        before = builder.load(most)
        builder.store(builder.select(builder.fcmp_ordered(">", score, before), score, before), most)
    builder.store(builder.load(most), vector_at(builder, out), align=4)


_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
BLOCK = 512  # numbers that are summed in order: more lose digits


@_compiled
def _sums(numbers, out):
    """Set ``out`` (LANES,) to the sums of ``numbers`` (n, LANES), as sums of sums of BLOCK."""
    out[:] = 0
    part = np.empty_like(out)
    for first in range(0, len(numbers), BLOCK):
        part[:] = 0
        for line in range(first, min(first + BLOCK, len(numbers))):
            for lane in range(LANES):
                part[lane] += numbers[line, lane]
        out += part


@_compiled
def cross_entropies(logits, targets, ignored, out):
    """Set ``out`` (n,) to the negative logarithms of the softmax of ``logits`` (n, C) at ``targets`` (n,), all float32 but these.

    0 where a target is ``ignored``. Returns False, with ``out`` unfinished, for a target that is no class.
    """
    count, classes = logits.shape
    assert targets.size == out.size == count and classes > 0 and logits.itemsize == 4 and logits.flags.c_contiguous
    near, best, sums = np.zeros((classes, LANES), np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    step = nb.uintp(4 * classes)
    for first in range(0, count, LANES):
        some = min(LANES, count - first)
        for row in range(some):
            if targets[first + row] != ignored and not 0 <= targets[first + row] < classes:
                return False
        put_in_lanes(nb.uintp(logits[first].ctypes.data), step, some, classes, nb.uintp(near.ctypes.data))
        greatest(nb.uintp(near.ctypes.data), nb.uintp(classes), nb.uintp(best.ctypes.data))
        weights(nb.uintp(near.ctypes.data), nb.uintp(classes), nb.uintp(sums.ctypes.data))
        if classes > BLOCK:
            _sums(near, sums)
        for row in range(some):
            target = targets[first + row]
            # logits far from zero lose no digits: their difference comes first
            out[first + row] = 0 if target == ignored else np.log(sums[row]) + (best[row] - logits[first + row, target])
    return True
