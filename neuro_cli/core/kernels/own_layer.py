"""Linear layer with each member's own weights, a tile of them at a time: sign flips of large layers (numba)."""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.blas import TRANSPOSED, UNCHANGED, sgemm

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_FLOAT = nb.uintp(4)  # bytes of a number
TILE, INNER = 128, 512  # outputs and inputs of the weights that a core's caches hold along with noise and a member's


@_compiled
def own_layer(x, weight, noise, outputs, inputs, scales, examples, begin, out):
    """Columns from ``begin`` on of ``out`` = x (weight + scale A noise B)^T, float32, a tile of a member's weights at a time.

    x has all rows of ``out``; ``outputs`` (D, O) and ``inputs`` (D, I): A and B, for the rows and columns of weight (O, I). For
    members of many rows: a tile's numbers take fewer instructions than a second product of these rows would.
    """
    count, inner = weight.shape
    directions, members = inputs.shape[0], scales.size * inputs.shape[0]
    assert noise.shape == weight.shape and outputs.shape == (directions, count) and inputs.shape[1] == inner == x.shape[1] > 0
    assert x.shape[0] == out.shape[0] == members * examples and 0 <= begin <= out.shape[1] - count
    assert x.itemsize == weight.itemsize == out.itemsize == 4 and x.flags.c_contiguous and out.flags.c_contiguous
    near = np.empty((TILE, INNER), np.float32)
    read, width = nb.uintp(inner), nb.uintp(out.shape[1])
    for first in range(0, count, TILE):
        some = min(TILE, count - first)
        for low in range(0, inner, INNER):
            length = min(INNER, inner - low)
            for member in range(members):
                direction, scale = member % directions, scales[member // directions]
                columns = inputs[direction, low : low + length]
                for row in range(some):
                    factor, line = scale * outputs[direction, first + row], near[row]
                    centre, step = weight[first + row, low : low + length], noise[first + row, low : low + length]
                    for c in range(length):
                        line[c] = centre[c] + factor * (columns[c] * step[c])
                source = nb.uintp(x.ctypes.data) + _FLOAT * (nb.uintp(member * examples) * read + nb.uintp(low))
                target = nb.uintp(out.ctypes.data) + _FLOAT * (nb.uintp(member * examples) * width + nb.uintp(begin + first))
                sgemm(
                    (TRANSPOSED, UNCHANGED), (nb.int32(some), nb.int32(examples), nb.int32(length)),
                    (nb.uintp(near.ctypes.data), nb.uintp(INNER)), (source, read),
                    nb.float32(0 if low == 0 else 1), (target, width),
                )  # fmt: skip
