"""Compiled loops over the rows of a batch in which every direction of noise has rows of its own.

Rows are (S sides, D directions, e examples) in that order: row ``r`` belongs to direction ``(r // e) % D`` and side
``r // (D e)``. A row is ``pixels`` times C channels, channels last; linear layers have one pixel. Float types as given.
All loops hold no lock of Python while they run; :mod:`neuro_cli.core.rows` says the same in torch operations.
"""

import numba as nb
import numpy as np

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
# sums of products may be reordered into vector lanes: an ordered sum is eight times as slow
_reordered = nb.njit(nogil=True, cache=True, boundscheck=False, fastmath={"reassoc", "contract", "nsz"})


@_compiled
def _expand(words, sign):
    """Signs of the bits of ``words`` (W,) uint32 into ``sign`` (32 W,): bit 0 is +1."""
    for w in range(words.size):
        word = words[w]
        for j in range(32):
            sign[32 * w + j] = 1 - 2 * np.int32((word >> np.uint32(j)) & np.uint32(1))


@_compiled
def signs(words, count, weights, out):
    """``out``[d, k] = weights[d] * sign of bit k of ``words``[d] (W,) uint32, for k < count."""
    sign = np.empty(32 * words.shape[1], out.dtype)
    for d in range(words.shape[0]):
        _expand(words[d], sign)
        weight = weights[d]
        for k in range(count):
            out[d, k] = weight * sign[k]


@_compiled
def flip(x, words, examples, out):
    """``out`` = x with the channels' signs of each row's direction; x (n, pixels, C), words (D, W)."""
    directions, channels = words.shape[0], x.shape[2]
    sign = np.empty(32 * words.shape[1], x.dtype)
    for row in range(x.shape[0]):
        _expand(words[(row // examples) % directions], sign)
        for pixel in range(x.shape[1]):
            source, target = x[row, pixel], out[row, pixel]
            for c in range(channels):
                target[c] = source[c] * sign[c]


@_compiled
def add_flipped(y, t, words, examples, scales):
    """y += scale * t with the channels' signs of each row's direction; y, t (n, pixels, C), scales (S,)."""
    directions, channels = words.shape[0], y.shape[2]
    sign = np.empty(32 * words.shape[1], y.dtype)
    for row in range(y.shape[0]):
        _expand(words[(row // examples) % directions], sign)
        scale = scales[row // (directions * examples)]
        for c in range(channels):
            sign[c] *= scale
        for pixel in range(y.shape[1]):
            source, target = t[row, pixel], y[row, pixel]
            for c in range(channels):
                target[c] += source[c] * sign[c]


@_compiled
def add_vectors(y, vectors, examples, scales):
    """y += scale * vectors[direction]; y (n, pixels, C), vectors (D, C)."""
    directions, channels = vectors.shape[0], y.shape[2]
    step = np.empty(channels, y.dtype)
    for row in range(y.shape[0]):
        vector = vectors[(row // examples) % directions]
        scale = scales[row // (directions * examples)]
        for c in range(channels):
            step[c] = scale * vector[c]
        for pixel in range(y.shape[1]):
            target = y[row, pixel]
            for c in range(channels):
                target[c] += step[c]


@_compiled
def gather(x, index, examples, out):
    """``out``[.., m] = x[.., index[direction, m]]; x (n, pixels, C), index (D, r), out (n, pixels, r)."""
    directions, kept = index.shape
    for row in range(x.shape[0]):
        order = index[(row // examples) % directions]
        for pixel in range(x.shape[1]):
            source, target = x[row, pixel], out[row, pixel]
            for m in range(kept):
                target[m] = source[order[m]]


@_compiled
def add_scattered(y, t, index, examples, scales):
    """y[.., index[direction, m]] += scale * t[.., m]; y (n, pixels, C), t (n, pixels, r), index (D, r)."""
    directions, kept = index.shape
    for row in range(y.shape[0]):
        order = index[(row // examples) % directions]
        scale = scales[row // (directions * examples)]
        for pixel in range(y.shape[1]):
            source, target = t[row, pixel], y[row, pixel]
            for m in range(kept):
                target[order[m]] += scale * source[m]


@_compiled
def add_outer(y, maps, factors, examples, scales, groups):
    """y[.., c] += scale * sum over q of maps[.., group(c), q] * factors[direction, q, c].

    y (n, pixels, C), maps (n, pixels, groups * R), factors (D, R, C).
    """
    directions, rank, channels = factors.shape
    each = channels // groups
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
def filtered(x, filters, examples, stride, padding, dilation, groups, out):
    """Each row filtered by its direction's own filters, the same for every group of channels.

    x (n, H, W, C), filters (D, R, kh, kw, C / groups), stride, padding and dilation (vertical, horizontal),
    out (n, H', W', groups * R). What lies outside of x counts as zero.
    """
    directions, rank, height, width, inner = filters.shape
    for row in range(x.shape[0]):
        bank = filters[(row // examples) % directions]
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                for c in range(groups * rank):
                    out[row, i, j, c] = 0
            for q in range(rank):
                for a in range(height):
                    h = i * stride[0] - padding[0] + a * dilation[0]
                    if h < 0 or h >= x.shape[1]:
                        continue
                    for b in range(width):
                        left = b * dilation[1] - padding[1]
                        # the j with 0 <= j * stride + left < W
                        first = max(0, -(left // stride[1])) if left < 0 else 0
                        last = min(out.shape[2], (x.shape[2] - 1 - left) // stride[1] + 1)
                        tap = bank[q, a, b]
                        if inner == 1 and groups == 1:
                            for j in range(first, last):
                                out[row, i, j, q] += tap[0] * x[row, h, j * stride[1] + left, 0]
                            continue
                        for j in range(first, last):
                            source, target = x[row, h, j * stride[1] + left], out[row, i, j]
                            if inner == 1:
                                for c in range(groups):
                                    target[c * rank + q] += tap[0] * source[c]
                            else:
                                for group in range(groups):
                                    total = tap[0] * source[group * inner]
                                    for c in range(1, inner):
                                        total += tap[c] * source[group * inner + c]
                                    target[group * rank + q] += total


@_compiled
def orders(words, kept, out):
    """``out`` (D, kept) int32: positions of the ``kept`` smallest of words[d] (n,) uint32, ascending, ties in order.

    A stable argsort: the words are uniform, so a bucket each and a pass of insertion do it in linear time.
    """
    size = words.shape[1]
    bits = 0
    while (1 << bits) < size:
        bits += 1
    shift = np.uint32(32 - bits) if bits else np.uint32(31)
    count = np.empty((1 << bits) + 2, np.int32)
    order = np.empty(size, np.int32)
    for d in range(words.shape[0]):
        keys = words[d]
        count[:] = 0
        for k in range(size):
            count[(keys[k] >> shift) + np.uint32(1)] += 1
        for b in range(1 << bits):
            count[b + 1] += count[b]
        for k in range(size):
            bucket = keys[k] >> shift
            order[count[bucket]] = k
            count[bucket] += 1
        for k in range(1, size):
            place, key = order[k], keys[order[k]]
            j = k - 1
            while j >= 0 and keys[order[j]] > key:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = place
        for m in range(kept):
            out[d, m] = order[m]


@_compiled
def counts(index, weights, low, out):
    """``out``[index[d, m] - low, m] += weights[d] where that is a row of ``out`` (n, r); index (D, r)."""
    for d in range(index.shape[0]):
        weight = weights[d]
        for m in range(index.shape[1]):
            k = index[d, m] - low
            if 0 <= k < out.shape[0]:
                out[k, m] += weight
