"""Compiled loops over the rows of a batch in which every direction of noise has rows of its own.

Rows are (S sides, D directions, e examples) in that order: row ``r`` belongs to direction ``(r // e) % D`` and side
``r // (D e)``. A row is ``pixels`` times C channels, channels last; linear layers have one pixel. Float types as given.
All loops hold no lock of Python while they run; :mod:`neuro_cli.core.rows` says the same in torch operations.

No index is checked inside of a loop, so its range is asserted before it: a row's direction is below D by the remainder, its side
below S where n <= S D e. Places ``index`` are of :func:`neuro_cli.core.rows.random_orders`: below C.
"""

import numba as nb
import numpy as np

NEAR = 2**14  # numbers of a nearest cache, with room for others
_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
# sums of products may be reordered into vector lanes: an ordered sum is eight times as slow
_reordered = nb.njit(nogil=True, cache=True, boundscheck=False, fastmath={"reassoc", "contract", "nsz"})


@_compiled
def add_vectors(y, vectors, examples, scales):
    """Compute y += scale * vectors[direction]; y (n, pixels, C), vectors (D, C)."""
    directions, channels = vectors.shape[0], y.shape[2]
    assert vectors.shape[1] == channels and y.shape[0] <= scales.size * directions * examples
    step = np.empty(channels, y.dtype)
    for row in range(y.shape[0]):
        vector = vectors[(row // examples) % directions]
        scale = scales[row // (directions * examples)]
        for c in range(channels):  # once per row, not once per pixel
            step[c] = scale * vector[c]
        for pixel in range(y.shape[1]):
            target = y[row, pixel]
            for c in range(channels):
                target[c] += step[c]


@_compiled
def add_lines(y, noise, first, index, lines, scales):
    """Add scale * noise[direction, first + C l + c] to y (n, k, C) for l = index[.., k] (n, k), a line of a table of ``lines``.

    Returns False, with ``y`` unfinished, for an index that is no line.
    """
    count, places, width = y.shape
    each = scales.size * noise.shape[0]
    assert index.shape == (count, places) and each > 0 and count % each == 0
    assert first >= 0 and lines >= 0 and first + lines * width <= noise.shape[1]
    examples = count // each
    for row in range(count):
        own = noise[(row // examples) % noise.shape[0]]
        scale = scales[row // (noise.shape[0] * examples)]
        for k in range(places):
            line, target = index[row, k], y[row, k]
            if not 0 <= line < lines:
                return False
            source = own[first + line * width : first + (line + 1) * width]
            for c in range(width):
                target[c] += scale * source[c]
    return True


@_compiled
def gather(x, index, examples, out):
    """Set ``out``[.., m] = x[.., index[direction, m]]; x (n, pixels, C), index (D, r), out (n, pixels, r)."""
    directions, kept = index.shape
    assert out.shape == (x.shape[0], x.shape[1], kept)
    for row in range(x.shape[0]):
        order = index[(row // examples) % directions]
        for pixel in range(x.shape[1]):
            source, target = x[row, pixel], out[row, pixel]
            for m in range(kept):
                target[m] = source[nb.uint32(order[m])]


@_compiled
def add_scattered(y, t, index, examples, scales):
    """Add scale * t[.., m] to y[.., index[direction, m]]; y (n, pixels, C), t (n, pixels, r), index (D, r), no place twice."""
    directions, kept, channels = index.shape[0], index.shape[1], y.shape[2]
    assert t.shape == (y.shape[0], y.shape[1], kept) and kept <= channels
    assert y.shape[0] <= scales.size * directions * examples
    near = np.empty(channels, y.dtype)
    for row in range(y.shape[0]):
        order = index[(row // examples) % directions]
        scale = scales[row // (directions * examples)]
        for pixel in range(y.shape[1]):
            source, target = t[row, pixel], y[row, pixel]
            if kept < channels:
                for m in range(kept):
                    target[nb.uint32(order[m])] += scale * source[m]
                continue
            for m in range(channels):  # writing places in the nearest cache is twice as fast as adding to them
                near[nb.uint32(order[m])] = source[m]
            for c in range(channels):
                target[c] += scale * near[c]


@_compiled
def add_outer(y, maps, factors, examples, scales, groups):
    """Compute y[.., c] += scale * sum over q of maps[.., group(c), q] * factors[direction, q, c].

    y (n, pixels, C), maps (n, pixels, groups * R), factors (D, R, C).
    """
    directions, rank, channels = factors.shape
    each = channels // groups
    # columns group * R + q of maps are below groups * R, channels (group + 1) * each at most C
    assert y.shape[2] == channels and maps.shape == (y.shape[0], y.shape[1], groups * rank)
    assert y.shape[0] <= scales.size * directions * examples
    for row in range(y.shape[0]):
        factor = factors[(row // examples) % directions]
        scale = scales[row // (directions * examples)]
        for pixel in range(y.shape[1]):
            target = y[row, pixel]
            for q in range(rank):
                line = factor[q]
                if groups == 1:
                    amount = scale * maps[row, pixel, q]
                    for c in range(channels):
                        target[c] += amount * line[c]
                else:
                    for group in range(groups):
                        amount = scale * maps[row, pixel, group * rank + q]
                        for c in range(group * each, (group + 1) * each):
                            target[c] += amount * line[c]


@_reordered
def _dot(x, y):
    """Return the product of x and y, of one size above 0, which the caller asserts."""
    total = x[0] * y[0]
    for c in range(1, x.size):
        total += x[c] * y[c]
    return total


@_reordered
def projected(x, filters, examples, out):
    """Set ``out``[n, p, q] = x[n, p] times filters[direction, q]; x (n, points, C), filters (D, R, C), out (n, points, R)."""
    directions, rank, channels = filters.shape
    assert channels == x.shape[2] > 0 and out.shape == (x.shape[0], x.shape[1], rank)
    for row in range(x.shape[0]):
        bank = filters[(row // examples) % directions]
        for point in range(x.shape[1]):
            for q in range(rank):
                out[row, point, q] = _dot(x[row, point], bank[q])


@_reordered
def normalised(x, weights, biases, numbers, out):
    """Set ``out`` (B, points, C) to the layer norm of x over C, times weights[b] plus biases[b], both (B, C).

    ``numbers``: 1 / C and epsilon in the type of x, for numbers of another type would make all of it float64. A line stays in the
    nearest cache for its three passes.
    """
    count, points, size = x.shape
    assert out.shape == x.shape and weights.shape == biases.shape == (count, size) and size > 0 and numbers.size == 2
    share, epsilon = numbers[0], numbers[1]
    nothing = share - share  # a zero of that type
    for b in range(count):
        weight, bias = weights[b], biases[b]
        for point in range(points):
            source, target = x[b, point], out[b, point]
            total, squares = nothing, nothing
            for c in range(size):
                total += source[c]
            mean = share * total
            for c in range(size):
                squares += (source[c] - mean) * (source[c] - mean)
            deviation = np.sqrt(share * squares + epsilon) + nothing * squares  # NaN, as torch's, where squares overflow
            for c in range(size):
                target[c] = (source[c] - mean) / deviation * weight[c] + bias[c]


@_compiled
def _span(left, stride, columns, out_columns):
    """Return bounds (first, last) of the j with 0 <= j * stride + left < columns; equal where a tap lies wholly outside."""
    first = -(left // stride) if left < 0 else 0
    # never below ``first``: the end of a slice that is negative counts from behind, and such a slice is not empty
    return first, max(first, min(out_columns, (columns - 1 - left) // stride + 1))


@_compiled
def gather_taps(taps, stride, padding, dilation, out):
    """Sum over the taps of a filter, the product of each shifted by the tap's place.

    taps (n, R, kh, kw, H, W): the product of every tap and every pixel; out (n, H', W', R). Outside of the image is zero.
    """
    rank, height, width, lines, columns = taps.shape[1:]
    # any size of ``out`` is right: h is compared with the lines, and _span keeps j and j * stride + left inside
    assert out.shape[0] == taps.shape[0] and out.shape[3] == rank
    sums = np.empty(out.shape[2], taps.dtype)
    for row in range(taps.shape[0]):
        for i in range(out.shape[1]):
            for q in range(rank):
                sums[:] = 0
                for a in range(height):
                    h = i * stride[0] - padding[0] + a * dilation[0]
                    if h < 0 or h >= lines:
                        continue
                    for b in range(width):
                        left = b * dilation[1] - padding[1]
                        first, last = _span(left, stride[1], columns, sums.size)
                        line = taps[row, q, a, b, h]
                        if stride[1] == 1:
                            source, target = line[first + left : last + left], sums[first:last]
                            for j in range(last - first):
                                target[j] += source[j]
                        else:
                            for j in range(first, last):
                                sums[j] += line[j * stride[1] + left]
                for j in range(sums.size):
                    out[row, i, j, q] = sums[j]


@_compiled
def counts(index, weights, out):
    """Compute ``out``[m, index[d, m]] += weights[d]; index (D, r), out (r, n) float32, contiguous.

    Some rows of ``out`` at a time stay in a near cache while all directions pass.
    """
    assert out.shape[0] == index.shape[1] > 0 and out.shape[1] > 0 and index.shape[0] <= weights.size
    block = max(32, NEAR // out.shape[1])
    for low in range(0, index.shape[1], block):
        for d in range(index.shape[0]):
            for m in range(low, min(low + block, index.shape[1])):
                out[m, nb.uint32(index[d, m])] += weights[d]
