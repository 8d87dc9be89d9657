"""Chains of linear layers with each member's own weights: a member's activations stay in the nearest cache (numba).

A vector has one number of each of LANES rows (:mod:`neuro_cli.core.kernels.lanes`), from the first layer to the last.
"""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.activations import NONE, activate
from neuro_cli.core.kernels.lanes import multiply, put_in_lanes, take_from_lanes
from neuro_cli.core.kernels.tiles import ROWS, copy, displace, lines_of, multiply_own
from neuro_cli.core.kernels.vectors import LANES

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_FLOAT, _LINE, _NOTHING = nb.uintp(4), nb.uintp(4 * LANES), nb.uintp(0)
# numbers of a block of rows between two layers, for the second cache, and least rows, as each block computes the weights again
HIDDEN, LEAST = 2**16, 128


@_compiled
def _sizes(x, centre, noise, layers, scales, out):
    """Return the most numbers of a row, and of a weight, of a chain; what it is given must fit."""
    # columns [c, c + size) lie in the centre and in the noise for each layer, and every width is at most ``widest``: so
    # addresses of lines and rows lie within what has ``widest`` columns; rows of x and ``out`` are counted up to their points
    sides, directions, points, width = x.shape[0], x.shape[1], x.shape[2], x.shape[3]
    assert out.shape[0] == scales.size and sides > 0 and scales.size % sides == 0 and layers.shape[1] == 7
    assert out.shape[1] == noise.shape[0] == directions and out.shape[2] == points
    assert x.itemsize == centre.itemsize == noise.itemsize == out.itemsize == scales.itemsize == 4
    assert x.flags.c_contiguous and centre.flags.c_contiguous and out.flags.c_contiguous
    widest = weights = 1
    for layer in range(layers.shape[0]):
        inputs, outputs, size = layers[layer, 0], layers[layer, 1], layers[layer, 0] * layers[layer, 1]
        assert inputs == width > 0 and outputs > 0
        assert 0 <= layers[layer, 2] <= centre.size - size and 0 <= layers[layer, 4] <= noise.shape[1] - size
        assert layers[layer, 3] <= centre.size - outputs and layers[layer, 5] <= noise.shape[1] - outputs
        widest, weights, width = max(widest, inputs, outputs), max(weights, size), outputs
    assert out.shape[3] == width
    return widest, weights


@_compiled
def own_chain(x, centre, noise, layers, scales, out):
    """Set ``out`` (S, D, m, O) to a chain of layers on x (S or 1, D, m, I), by weights centre + scale noise; float32.

    ``layers`` (L, 7): inputs, outputs, first columns of weight (O, I) and bias (O,) in the ``centre`` (M,), and in the ``noise``
    (D, N), activation; -1: no bias, or none with noise. A member's bits depend on no other.
    """
    widest, weights = _sizes(x, centre, noise, layers, scales, out)
    directions, points, width = out.shape[1], out.shape[2], out.shape[3]
    blocks = (points + LANES - 1) // LANES
    one, two = np.empty((blocks, widest, LANES), np.float32), np.empty((blocks, widest, LANES), np.float32)
    near, bias, zeros = np.empty(weights, np.float32), np.empty(widest, np.float32), np.zeros(widest, np.float32)
    first, last = nb.uintp(4 * x.shape[3]), nb.uintp(4 * width)
    for direction in range(directions):
        for side in range(scales.size):
            given = nb.uintp(x[side % x.shape[0], direction].ctypes.data)
            for block in range(blocks):
                count = min(LANES, points - block * LANES)
                place = nb.uintp(one[block].ctypes.data)
                if count < LANES:
                    one[block] = 0  # what another member left in lanes without a row would grow from member to member
                put_in_lanes(given + nb.uintp(block * LANES) * first, first, count, x.shape[3], place)
            source, target = one, two
            for layer in range(layers.shape[0]):
                inputs, outputs = layers[layer, 0], layers[layer, 1]
                weight, shift, own, moved = layers[layer, 2], layers[layer, 3], layers[layer, 4], layers[layer, 5]
                size, scale, line = inputs * outputs, scales[side], bias[:outputs]
                displace(centre[weight : weight + size], noise[direction, own : own + size], scale, near[:size])
                line[:] = centre[shift : shift + outputs] if shift >= 0 else zeros[:outputs]
                if moved >= 0:
                    displace(line, noise[direction, moved : moved + outputs], scale, line)
                for block in range(blocks):
                    place, step = nb.uintp(target[block].ctypes.data), nb.uintp(4 * inputs)
                    multiply(nb.uintp(source[block].ctypes.data), inputs, nb.uintp(near.ctypes.data), step, outputs, place)
                    activate(layers[layer, 6], place, nb.uintp(bias.ctypes.data), _FLOAT, outputs)
                source, target = target, source
            taken = nb.uintp(out[side, direction].ctypes.data)
            for block in range(blocks):
                count = min(LANES, points - block * LANES)
                take_from_lanes(nb.uintp(source[block].ctypes.data), count, width, taken + nb.uintp(block * LANES) * last, last)


@_compiled
def _activate_row(kind, place, zero, count, spare):
    """Apply an activation to ``count`` numbers at an address; ``zero``: address of a 0, ``spare``: of LANES numbers."""
    complete = count // LANES
    activate(kind, place, zero, _NOTHING, complete)
    if complete * LANES < count:
        place = place + _LINE * nb.uintp(complete)
        copy(place, spare, count - complete * LANES)
        activate(kind, spare, zero, _NOTHING, 1)
        copy(spare, place, count - complete * LANES)


@_compiled
def activated(x, kind, out):
    """Set ``out`` (n,) to an activation of x (n,), to the bits that a chain has; float32."""
    assert x.size == out.size and x.itemsize == out.itemsize == 4 and x.flags.c_contiguous and out.flags.c_contiguous
    out[:] = x
    zero, spare = np.zeros(1, np.float32), np.zeros(LANES, np.float32)
    _activate_row(kind, nb.uintp(out.ctypes.data), nb.uintp(zero.ctypes.data), out.size, nb.uintp(spare.ctypes.data))


@_compiled
def tiled_chain(x, centre, noise, layers, scales, out):
    """Do what :func:`own_chain` does, for at least ROWS rows: by tiles, with blocks of a member's rows in the second cache."""
    widest, _ = _sizes(x, centre, noise, layers, scales, out)
    directions, points, last = out.shape[1], out.shape[2], layers.shape[0] - 1
    assert points >= ROWS and last >= 0
    some = 1
    for layer in range(last + 1):
        some = max(some, lines_of(layers[layer, 0], layers[layer, 1]) * layers[layer, 0])
    block = min(points, max(LEAST, HIDDEN // widest))
    blocks = points // block  # the last one also has the rows that are left, so none has fewer than ROWS
    room = (points - (blocks - 1) * block) * widest + LANES
    one, two = np.empty(room, np.float32), np.empty(room, np.float32)
    near, panels = np.empty(some, np.float32), np.zeros(some, np.float32)
    line, spare, zero = np.zeros(widest + LANES, np.float32), np.zeros((ROWS, LANES), np.float32), np.zeros(1, np.float32)
    for direction in range(directions):
        for side in range(scales.size):
            for number in range(blocks):
                low = number * block
                count = points - low if number + 1 == blocks else block
                source = nb.uintp(x[side % x.shape[0], direction].ctypes.data) + _FLOAT * nb.uintp(low * x.shape[3])
                for layer in range(last + 1):
                    inputs, outputs, scale = layers[layer, 0], layers[layer, 1], scales[side]
                    weight, shift, own, moved = layers[layer, 2], layers[layer, 3], layers[layer, 4], layers[layer, 5]
                    line[:outputs] = 0
                    if shift >= 0:
                        line[:outputs] = centre[shift : shift + outputs]
                    if moved >= 0:
                        displace(line[:outputs], noise[direction, moved : moved + outputs], scale, line[:outputs])
                    target = nb.uintp((one if layer % 2 == 0 else two).ctypes.data)
                    if layer == last:
                        target = nb.uintp(out[side, direction].ctypes.data) + _FLOAT * nb.uintp(low * outputs)
                    size = inputs * outputs
                    multiply_own(
                        source, count, inputs, centre[weight : weight + size], noise[direction, own : own + size], scale, outputs,
                        near, panels, line, target, spare,
                    )  # fmt: skip
                    if layers[layer, 6] != NONE:
                        places = nb.uintp(zero.ctypes.data), nb.uintp(spare.ctypes.data)
                        _activate_row(layers[layer, 6], target, places[0], count * outputs, places[1])
                    source = target
