"""Chains of linear layers with each member's own weights: a member's activations stay in the nearest cache (numba).

A vector has one number of each of LANES rows (:mod:`neuro_cli.core.kernels.lanes`), from the first layer to the last.
"""

import numba as nb
import numpy as np
from numba.core import types

from neuro_cli.core.kernels.lanes import added, multiply, put_in_lanes, same, spread, take_from_lanes, vector_at
from neuro_cli.core.kernels.vectors import LANES, by_address

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_FLOAT, _LINE = nb.uintp(4), nb.uintp(4 * LANES)
NONE, TANH, RELU = range(3)

# tanh x is nearly x P / Q within FARTHEST, where it is 1 to the last bit of a float32: P and Q in powers of x**2, fitted for the
# least relative error. A test holds the rounded quotient within 5 units of the last place
FARTHEST = 9.02
P = (1.00000000e00, 1.33797064e-01, 3.49402078e-03, 2.05832566e-05, 1.33187683e-08)
Q = (1.00000000e00, 4.67130214e-01, 2.58710217e-02, 3.28307040e-04, 7.76189324e-07)


def _power_sum(builder, y, factors):
    total = same(factors[-1])
    for factor in factors[-2::-1]:
        total = added(builder, same(factor), total, y)
    return total


def _activation(kind):
    @by_address(*[types.uintp] * 2)
    def law(builder, place, bias):
        """Replace LANES sums x at an address by the activation of x + the number at address ``bias``; a NaN stays."""
        where = vector_at(builder, place)
        x = builder.fadd(builder.load(where, align=4), spread(builder, bias))
        builder.store(kind(builder, x), where, align=4)

    return law


def _limited(builder, x, least, most):
    # an unordered comparison is true of a NaN, which so passes both choices
    x = builder.select(builder.fcmp_unordered("ugt", x, same(least)), x, same(least))
    return builder.select(builder.fcmp_unordered("ult", x, same(most)), x, same(most))


def tanh(builder, x):
    x = _limited(builder, x, -FARTHEST, FARTHEST)
    y = builder.fmul(x, x)
    result = builder.fdiv(builder.fmul(x, _power_sum(builder, y, P)), _power_sum(builder, y, Q))
    return _limited(builder, result, -1, 1)


def relu(builder, x):
    return builder.select(builder.fcmp_ordered("olt", x, same(0)), same(0), x)


shift_lanes, tanh_of_lanes, relu_of_lanes = _activation(lambda _, x: x), _activation(tanh), _activation(relu)


@_compiled
def _activate(kind, place, bias, count):
    """Add ``count`` numbers at address ``bias`` to as many vectors at address ``place``, and apply an activation."""
    for _ in range(count):
        if kind == TANH:
            tanh_of_lanes(place, bias)
        elif kind == RELU:
            relu_of_lanes(place, bias)
        else:
            shift_lanes(place, bias)
        place, bias = place + _LINE, bias + _FLOAT


@_compiled
def _moved(given, noise, scale, out):
    """Set ``out`` (n,) = given (n,) + scale * noise (n,)."""
    for i in range(out.size):
        out[i] = given[i] + scale * noise[i]


@_compiled
def own_chain(x, centre, noise, layers, scales, out):
    """Set ``out`` (S, D, m, O) to a chain of layers on x (S or 1, D, m, I), by weights centre + scale noise; float32.

    ``layers`` (L, 7): inputs, outputs, first columns of weight (O, I) and bias (O,) in the ``centre`` (M,), and in the ``noise``
    (D, N), activation; -1: no bias, or none with noise. A member's bits depend on no other.
    """
    # columns [c, c + size) lie in the centre and in the noise for each layer, and every width is at most ``widest``: so lines of
    # LANES by address lie within ``one`` and ``two``, and rows within x and ``out`` since count <= points - block * LANES
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
    blocks = (points + LANES - 1) // LANES
    one, two = np.empty((blocks, widest, LANES), np.float32), np.empty((blocks, widest, LANES), np.float32)
    near, bias, zeros = np.empty(weights, np.float32), np.empty(widest, np.float32), np.zeros(widest, np.float32)
    first, last = nb.uintp(4 * x.shape[3]), nb.uintp(4 * width)
    for direction in range(directions):
        for side in range(scales.size):
            given = nb.uintp(x[side % sides, direction].ctypes.data)
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
                _moved(centre[weight : weight + size], noise[direction, own : own + size], scale, near[:size])
                line[:] = centre[shift : shift + outputs] if shift >= 0 else zeros[:outputs]
                if moved >= 0:
                    _moved(line, noise[direction, moved : moved + outputs], scale, line)
                for block in range(blocks):
                    place, step = nb.uintp(target[block].ctypes.data), nb.uintp(4 * inputs)
                    multiply(nb.uintp(source[block].ctypes.data), inputs, nb.uintp(near.ctypes.data), step, outputs, place)
                    _activate(layers[layer, 6], place, nb.uintp(bias.ctypes.data), outputs)
                source, target = target, source
            taken = nb.uintp(out[side, direction].ctypes.data)
            for block in range(blocks):
                count = min(LANES, points - block * LANES)
                take_from_lanes(nb.uintp(source[block].ctypes.data), count, width, taken + nb.uintp(block * LANES) * last, last)
