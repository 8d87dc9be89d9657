"""Compiled loops between two steps of many environments: normalise observations, run policies.

Every row is computed alone, in a fixed order, by additions, products and divisions that are not fused. An answer depends
neither on the other rows of the batch nor on vector instructions or a mathematics library.

No index is checked inside a loop: sizes are asserted before it, and a row's episode or policy where it is looked up.

Legend: n rows (environments that run), J episodes, I inputs, O outputs, M parameters, W policies.
"""

import numba as nb
import numpy as np

# error_model: a check of every divisor would keep the compiler from vectors; _tanh's is above 0
_compiled = nb.njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")

LINEAR, TANH, RELU, SIGMOID, GAIN = range(5)
FARTHEST = 1e15  # deviations of an observation from the mean: sums of their squares are float32 on a wire
LARGEST = float(np.finfo(np.float32).max)  # largest observation that a policy takes without statistics
_ACCURATE = np.float32(9.1)  # tanh is 1 to the last bit of a float32 beyond it


# tanh x is nearly x P / Q: Lambert's continued fraction x / (1 + x**2 / (3 + x**2 / (5 + ...))), cut off after 13 terms. All
# coefficients, in powers of x**2, are positive, so no digits are lost in the sums
_P = np.array([1, 1.4666666e-01, 5.2173915e-03, 6.6252585e-05, 3.2286837e-07, 5.179706e-10, 1.2648855e-13], np.float32)
_Q = np.array([1, 4.8e-01, 3.188406e-02, 6.625259e-04, 5.2304677e-06, 1.5193805e-08, 1.1510458e-11], np.float32)
_P0, _P1, _P2, _P3, _P4, _P5, _P6 = _P
_Q0, _Q1, _Q2, _Q3, _Q4, _Q5, _Q6 = _Q


@_compiled
def _tanh(values):
    """Compute tanh of ``values`` float32 in place, to a few units of the last place."""
    for j in range(values.size):
        x = min(max(values[j], -_ACCURATE), _ACCURATE)
        y = x * x
        upper = _P0 + y * (_P1 + y * (_P2 + y * (_P3 + y * (_P4 + y * (_P5 + y * _P6)))))
        lower = _Q0 + y * (_Q1 + y * (_Q2 + y * (_Q3 + y * (_Q4 + y * (_Q5 + y * _Q6)))))
        result = min(max(x * upper / lower, np.float32(-1)), np.float32(1))
        values[j] = result if values[j] == values[j] else values[j]  # min and max may drop a NaN


@_compiled
def _activate(kind, values):
    if kind == TANH:
        _tanh(values)
    elif kind == RELU:
        for j in range(values.size):
            values[j] = values[j] if not values[j] < 0 else np.float32(0)  # keeps a NaN
    elif kind == SIGMOID:
        # sigmoid(x) = (tanh(x / 2) + 1) / 2
        for j in range(values.size):
            values[j] = values[j] * np.float32(0.5)
        _tanh(values)
        for j in range(values.size):
            values[j] = (values[j] + np.float32(1)) * np.float32(0.5)
    elif kind == GAIN:
        # signals and their gains: half of the outputs are left
        half = values.size // 2
        for j in range(half):
            values[j] *= np.float32(1) + np.float32(0.5) * values[half + j]


@_compiled
def remaining(outputs, kind):
    """Return how many of a layer's ``outputs`` its activation leaves."""
    return outputs // 2 if kind == GAIN else outputs


@_compiled
def lay_out(layers, flats, out):
    """Copy ``flats`` (W, M) to ``out`` (W, M'): for each layer its bias (zeros if none), then its weight by inputs.

    ``layers`` (L, 5): inputs, outputs, where weight and bias begin in a flat vector (-1: no bias), activation.
    """
    numbers = 0
    for layer in range(layers.shape[0]):
        inputs, outputs, weight, bias = layers[layer, 0], layers[layer, 1], layers[layer, 2], layers[layer, 3]
        assert inputs >= 0 and outputs >= 0 and 0 <= weight <= flats.shape[1] - inputs * outputs
        assert bias <= flats.shape[1] - outputs
        numbers += outputs + inputs * outputs
    assert out.shape[0] >= flats.shape[0] and out.shape[1] >= numbers
    for w in range(flats.shape[0]):
        place = 0
        for layer in range(layers.shape[0]):
            inputs, outputs, weight, bias = layers[layer, 0], layers[layer, 1], layers[layer, 2], layers[layer, 3]
            for j in range(outputs):
                out[w, place + j] = flats[w, bias + j] if bias >= 0 else np.float32(0)
            place += outputs
            for i in range(inputs):  # transposed, so that act() reads the weights of one input consecutively
                for j in range(outputs):
                    out[w, place + i * outputs + j] = flats[w, weight + j * inputs + i]
            place += inputs * outputs


@_compiled
def act(layers, parameters, which, x, out, widest):
    """Answer row r of ``x`` (n, I) float32 by policy ``which``[r], into ``out`` (n, O). ``widest``: the widest layer."""
    numbers, width = 0, x.shape[1]
    for layer in range(layers.shape[0]):
        assert layers[layer, 0] == width <= widest and layers[layer, 1] <= widest
        numbers, width = numbers + (1 + width) * layers[layer, 1], remaining(layers[layer, 1], layers[layer, 4])
    assert numbers <= parameters.shape[1] and out.shape == (x.shape[0], width) and which.size >= x.shape[0]
    one, two = np.empty(widest, np.float32), np.empty(widest, np.float32)  # layers alternate between these buffers
    for r in range(x.shape[0]):
        assert 0 <= which[r] < parameters.shape[0]
        policy = parameters[which[r]]
        source, target = one[: x.shape[1]], two
        source[:] = x[r]
        place = 0
        for layer in range(layers.shape[0]):
            inputs, outputs = layers[layer, 0], layers[layer, 1]
            result = target[:outputs]
            result[:] = policy[place : place + outputs]
            place += outputs
            i = 0
            while i + 4 <= inputs:  # four inputs at a time save three of four trips to memory; still added in order
                a, b, c, d = source[i], source[i + 1], source[i + 2], source[i + 3]
                lines = policy[place : place + 4 * outputs]
                for j in range(outputs):
                    value = result[j] + a * lines[j]
                    value += b * lines[outputs + j]
                    value += c * lines[2 * outputs + j]
                    result[j] = value + d * lines[3 * outputs + j]
                place += 4 * outputs
                i += 4
            while i < inputs:
                line = policy[place : place + outputs]
                for j in range(outputs):
                    result[j] += source[i] * line[j]
                place += outputs
                i += 1
            _activate(layers[layer, 4], result)
            target = one if layer % 2 == 0 else two
            source = result[: remaining(outputs, layers[layer, 4])]
        out[r] = source


@_compiled
def meet(raw, episode, base, mean, inverse, clip, steps, sums, x):
    """Count the observations ``raw`` (n, I) for their ``episode`` (n,), add z and z**2 to ``sums`` (J, 2 I), give clipped z.

    Empty ``sums`` mean no statistics: ``x`` (n, I) float32 is ``raw``. Returns whether all z lie within :data:`FARTHEST`, or all
    of ``raw`` within :data:`LARGEST`.
    """
    inputs = raw.shape[1]
    assert x.shape == raw.shape and episode.size >= raw.shape[0]
    assert sums.shape[1] == 0 or (sums.shape == (steps.size, 2 * inputs) and base.size == mean.size == inverse.size == inputs)
    good = True
    for r in range(raw.shape[0]):
        assert 0 <= episode[r] < steps.size
        steps[episode[r]] += 1
        if sums.shape[1] == 0:
            for i in range(inputs):
                x[r, i] = raw[r, i]
                good &= abs(raw[r, i]) <= LARGEST
            continue
        line = sums[episode[r]]
        for i in range(inputs):
            # the base leaves in float64: float32 has too few digits for values far from 0
            z = (np.float32(raw[r, i] - base[i]) - mean[i]) * inverse[i]
            good &= abs(z) <= FARTHEST  # false for a NaN too
            line[i] += z
            line[inputs + i] += np.float64(z) * np.float64(z)
            x[r, i] = min(max(z, -clip), clip)
    return good
