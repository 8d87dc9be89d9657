"""Linear layers with each member's own weights, a tile of them at a time: dense noise (numba).

With AVX-512 rows go by :mod:`neuro_cli.core.kernels.tiles`, fewer than ROWS and all with AVX2 by torch's BLAS.
"""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.blas import TRANSPOSED, UNCHANGED, sgemm
from neuro_cli.core.kernels.tiles import FASTER, NEAR, ROWS, displace, lines_of, multiply_own
from neuro_cli.core.kernels.vectors import LANES

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_FLOAT = nb.uintp(4)  # bytes of a number


@_compiled
def dense_layer(x, weight, bias, noise, first, shift, scales, out):
    """Set ``out`` (S, D, m, O) to x (S or 1, D, m, I) (weight + scale noise)^T + bias + scale shift; contiguous float32.

    ``noise`` (D, M): columns from ``first`` are the weight's (O, I), columns from ``shift`` the bias's; -1 for none. The bias
    (O,) may be empty. A core multiplies by a tile of weights before it leaves the caches. A member's bits depend on no other.
    """
    count, inner = weight.shape
    sides, directions, points = out.shape[0], out.shape[1], out.shape[2]
    assert x.shape[1:] == (directions, points, inner) and x.shape[0] > 0 and sides % x.shape[0] == 0 and inner > 0
    assert out.shape[3] == count > 0 and scales.size == sides and bias.size in (0, count) and noise.shape[0] == directions
    assert 0 <= first <= noise.shape[1] - count * inner and shift <= noise.shape[1] - count
    assert x.itemsize == weight.itemsize == bias.itemsize == noise.itemsize == out.itemsize == scales.itemsize == 4
    # ``near`` and ``panels`` have ``some`` lines of a matrix, and ``line`` a vector from any of its first ``count`` numbers on
    assert x.flags.c_contiguous and weight.flags.c_contiguous and noise.flags.c_contiguous and out.flags.c_contiguous
    tiled = FASTER and points >= ROWS
    some = lines_of(inner, count) if tiled else min(count, max(1, NEAR // inner))
    near, line, centre = np.empty(some * inner, np.float32), np.zeros(count + LANES, np.float32), weight.reshape(count * inner)
    panels, spare = np.zeros(some * inner if tiled else 0, np.float32), np.empty((ROWS, LANES), np.float32)
    step, width = nb.uintp(inner), nb.uintp(count)
    for direction in range(directions):
        for side in range(sides):
            scale, target, source = scales[side], out[side, direction], x[side % x.shape[0], direction]
            for c in range(count):
                line[c] = bias[c] if bias.size > 0 else np.float32(0)
            if shift >= 0:
                for c in range(count):
                    line[c] += scale * noise[direction, shift + c]
            if tiled:
                multiply_own(
                    nb.uintp(source.ctypes.data), points, inner, centre, noise[direction, first : first + count * inner], scale,
                    count, near, panels, line, nb.uintp(target.ctypes.data), spare,
                )  # fmt: skip
                continue
            for low in range(0, count, some):
                length = min(some, count - low)
                begin, end = low * inner, (low + length) * inner
                displace(centre[begin:end], noise[direction, first + begin : first + end], scale, near[: end - begin])
                place = nb.uintp(target.ctypes.data) + _FLOAT * nb.uintp(low)
                sgemm(
                    (TRANSPOSED, UNCHANGED), (nb.int32(length), nb.int32(points), nb.int32(inner)),
                    (nb.uintp(near.ctypes.data), step), (nb.uintp(source.ctypes.data), step), nb.float32(0),
                    (place, width),
                )  # fmt: skip
            if bias.size > 0 or shift >= 0:
                for point in range(points):
                    for c in range(count):
                        target[point, c] += line[c]
