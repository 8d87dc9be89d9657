"""Rounding of float32 to bfloat16, a word of 16 bits, by given random bits."""

import numba as nb

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
