"""Rounding of float32 to bfloat16, a word of 16 bits, by given random bits or by those of their addresses."""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.numba_noise import words_of

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)


@_compiled
def rounded(values, bits, out):
    """Set ``out`` (n,) uint16 to the upper halves of ``values`` (n,) uint32, bits of float32 numbers, plus ``bits`` (n,).

    Infinities stay, and every NaN becomes the usual one.
    """
    assert values.size == bits.size == out.size
    for k in range(values.size):
        value = values[k]
        lost = (value & nb.uint32(0x7FFFFFFF)) > nb.uint32(0x7F800000)
        out[k] = nb.uint16(0x7FC0) if lost else nb.uint16(nb.uint32(value + nb.uint32(bits[k])) >> nb.uint32(16))


@_compiled
def rounded_columns(key0, key1, generation, stream, length, start, values, out):
    """Run :func:`rounded` on columns [start, start + n); tile t of ``length`` columns has the bits of direction t, two a word."""
    assert values.size == out.size and start >= 0 and length > 0 and length % 2 == 0
    words, done = np.empty((1, length // 2), np.uint32), 0
    bits = words[0].view(np.uint16)
    while done < values.size:
        tile, first = divmod(start + done, length)
        last = min(first + values.size - done, length)
        words_of(key0, key1, generation, stream, np.array([tile]), words)
        following = done + last - first
        rounded(values[done:following], bits[first:last], out[done:following])
        done = following
