"""Activations of LANES numbers at once, with a bias before them (numba)."""

import numba as nb
from numba.core import types

from neuro_cli.core.kernels.lanes import added, same, spread, vector_at
from neuro_cli.core.kernels.vectors import LANES, by_address

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_LINE = nb.uintp(4 * LANES)
NONE, TANH, RELU, GELU = range(4)

# tanh x is nearly x P / Q within FARTHEST, where it is 1 to the last bit of a float32: P and Q in powers of x**2, fitted for the
# least relative error. A test holds the rounded quotient within 5 units of the last place
FARTHEST = 9.02
P = (1.00000000e00, 1.33797064e-01, 3.49402078e-03, 2.05832566e-05, 1.33187683e-08)
Q = (1.00000000e00, 4.67130214e-01, 2.58710217e-02, 3.28307040e-04, 7.76189324e-07)
# the same for erf(x / sqrt 2), with an error of 2e-8 of it, and for GELU of less than 2e-7 of x
ERF_FARTHEST = 5.6
ERF_P = (7.97884544e-01, 6.78582553e-02, 9.35471091e-03, 3.37860192e-04, 1.25795410e-05, 4.45945348e-08)
ERF_Q = (1.00000000e00, 2.51714037e-01, 2.86776104e-02, 1.88549682e-03, 7.33443959e-05, 1.17965213e-06)


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


def _at_least(builder, x, least):
    # an unordered comparison is true of a NaN, which so passes the choice
    return builder.select(builder.fcmp_unordered("ugt", x, same(least)), x, same(least))


def _at_most(builder, x, most):
    return builder.select(builder.fcmp_unordered("ult", x, same(most)), x, same(most))


def _odd(builder, x, above, below):
    """Return the quotient of x times a sum of powers of x**2 and another sum, within [-1, 1]."""
    y = builder.fmul(x, x)
    result = builder.fdiv(builder.fmul(x, _power_sum(builder, y, above)), _power_sum(builder, y, below))
    return _at_most(builder, _at_least(builder, result, -1), 1)


def tanh(builder, x):
    return _odd(builder, _at_most(builder, _at_least(builder, x, -FARTHEST), FARTHEST), P, Q)


def relu(builder, x):
    return builder.select(builder.fcmp_ordered("olt", x, same(0)), same(0), x)


def _gelu(builder, x):
    x = _at_least(builder, x, -ERF_FARTHEST)  # GELU is -2e-7 at most there
    erf = _odd(builder, _at_most(builder, x, ERF_FARTHEST), ERF_P, ERF_Q)
    return builder.fmul(x, added(builder, same(0.5), same(0.5), erf))


shift_lanes, tanh_of_lanes, relu_of_lanes, gelu_of_lanes = map(_activation, (lambda _, x: x, tanh, relu, _gelu))


@_compiled
def activate(kind, place, bias, step, count):
    """Add numbers, ``step`` bytes apart from address ``bias`` on, to ``count`` vectors at ``place``, and apply an activation."""
    for _ in range(count):
        if kind == TANH:
            tanh_of_lanes(place, bias)
        elif kind == RELU:
            relu_of_lanes(place, bias)
        elif kind == GELU:
            gelu_of_lanes(place, bias)
        else:
            shift_lanes(place, bias)
        place, bias = place + _LINE, bias + step
