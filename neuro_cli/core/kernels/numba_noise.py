"""The addressed noise on a CPU as compiled loops (numba): Philox4x32-10, the normal law, and rounding to bfloat16 by its bits.

Same numbers as :mod:`neuro_cli.core.philox`, which defines them; a test holds the bits equal. The loops are split as
they are because LLVM turns each of them into vector instructions, but for the law, which :mod:`neuro_cli.core.kernels.vectors`
spells; they hold no lock of Python while they run.
"""

import logging

import numba as nb
import numpy as np

from neuro_cli.core.kernels import vectors
from neuro_cli.core.philox import KEY_STEP, LANE, MULTIPLIER, TILE
from neuro_cli.core.quantile import BASE, SLOPE

_M0, _M1 = np.uint64(MULTIPLIER[0]), np.uint64(MULTIPLIER[1])
_W0, _W1 = np.uint32(KEY_STEP[0]), np.uint32(KEY_STEP[1])
_FLOAT, _LINE = nb.uintp(4), nb.uintp(4 * vectors.LANES)  # bytes of a number, and of a vector
_LOW = np.uint64(32)
STEP = 32  # columns of a group, by which a part of a tile is computed: a constant length becomes vector instructions
# base and slope of a segment as one 64-bit word: one load instead of two is a quarter of the time of the law
_TABLE = np.stack([BASE, SLOPE], axis=1).reshape(-1).view(np.uint64)

log = logging.getLogger(__name__)

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)


@_compiled
def _word_counters(tile, direction, generation, stream, key0, key1, words, low, count):
    """Philox words of counters [low, low + count), at most LANE, of one tile into ``words`` (4, LANE): a word of each lane."""
    first = nb.uint32(tile) * nb.uint32(LANE) + nb.uint32(low)
    line0, line1, line2, line3 = words[0, low:], words[1, low:], words[2, low:], words[3, low:]
    for j in range(count):
        # the four words of a counter: place, direction, generation, stream. Any number is found without those before it
        x0 = nb.uint32(first + nb.uint32(j))
        x1 = nb.uint32(direction)
        x2 = nb.uint32(generation)
        x3 = nb.uint32(stream)
        k0 = nb.uint32(key0)
        k1 = nb.uint32(key1)
        # 10 rounds, the published default
        for _ in range(10):
            p0 = _M0 * nb.uint64(x0)
            p1 = _M1 * nb.uint64(x2)
            x0 = nb.uint32(p1 >> _LOW) ^ x1 ^ k0
            x1 = nb.uint32(p1)
            x2 = nb.uint32(p0 >> _LOW) ^ x3 ^ k1
            x3 = nb.uint32(p0)
            k0 = nb.uint32(k0 + _W0)
            k1 = nb.uint32(k1 + _W1)
        # four arrays in place of one of four columns: stores of neighbours become one vector store
        line0[j] = x0
        line1[j] = x1
        line2[j] = x2
        line3[j] = x3


@_compiled
def _word_slice(tile, direction, generation, stream, key0, key1, words, a, b):
    """Philox words of one tile into ``words`` (4, LANE) uint32, at least columns [a, b) (multiples of STEP)."""
    # a part of a tile is computed where a rank owns a part: ranks then share the work of combine without overlap
    if b - a >= LANE:
        _word_counters(tile, direction, generation, stream, key0, key1, words, 0, LANE)
    else:
        for low in range(a, b, STEP):
            _word_counters(tile, direction, generation, stream, key0, key1, words, low % LANE, STEP)


_normals = vectors.normals_by_gathers if vectors.wide() else vectors.normals_by_loads
if not vectors.wide():
    log.info("noise: compiled loops without AVX-512")


@_compiled
def _normal_tile(words, out, needed):
    """Write normals of the first ``needed`` of ``words`` (TILE,) uint32 to ``out`` float32; up to a multiple of LANES of both.

    A word names a segment of the table, below its 1,985: the greatest is that of 2**31 (:mod:`neuro_cli.core.quantile`).
    """
    source, target, table = words.ctypes.data, out.ctypes.data, _TABLE.ctypes.data
    # the last vector may write beyond what is needed, never beyond the tile
    for j in range(0, needed, vectors.LANES):
        _normals(source + nb.uintp(4 * j), target + nb.uintp(4 * j), table)


@_compiled
def add_moment(noise, weight, moment, sums):
    """Add weight * noise, or weight * (noise**2 - 1) for ``moment`` 2, to ``sums`` float64; both (n,)."""
    if moment == 1:
        for k in range(noise.size):
            sums[k] += weight * np.float64(noise[k])
    else:
        for k in range(noise.size):
            value = np.float64(noise[k])
            sums[k] += weight * (value * value - 1.0)


@_compiled
def _words_into(key0, key1, generation, direction, stream, out, tile_words):
    flat = tile_words.reshape(TILE)
    for tile in range((out.size + TILE - 1) // TILE):
        low = tile * TILE
        _word_counters(tile, direction, generation, stream, key0, key1, tile_words, 0, min(out.size - low, LANE))
        for k in range(min(TILE, out.size - low)):
            out[low + k] = flat[k]


@_compiled
def words_of(key0, key1, generation, stream, directions, out):
    """Write random words of noise for ``directions`` (D,) at columns [0, n) into ``out`` (D, n) uint32."""
    assert out.shape[0] == directions.size
    tile_words = np.empty((4, LANE), np.uint32)
    for d in range(directions.size):
        _words_into(key0, key1, generation, directions[d], stream, out[d], tile_words)


@_compiled
def draw(key0, key1, generation, stream, directions, start, out):
    """Write normals of noise for ``directions`` (D,) at columns [start, start + n) into ``out`` (D, n) float32."""
    # addresses where a tile is complete: TILE numbers that lie side by side
    assert out.shape[0] == directions.size and start >= 0
    assert out.itemsize == 4 and (out.shape[1] <= 1 or out.strides[1] == 4)
    tile_words = np.empty((4, LANE), np.uint32)
    flat = tile_words.reshape(TILE)
    normal = np.empty(TILE, np.float32)
    stop = start + out.shape[1]
    for d in range(directions.size):
        for tile in range(start // TILE, (stop + TILE - 1) // TILE):
            low = tile * TILE
            a = max(start, low)
            b = min(stop, low + TILE)
            _word_counters(tile, directions[d], generation, stream, key0, key1, tile_words, 0, min(b - low, LANE))
            # a complete tile is written in place, a cut one through scratch
            part = out[d, a - start : b - start]
            if part.size == TILE:
                _normal_tile(flat, part, TILE)
            else:
                _normal_tile(flat, normal, b - low)
                part[:] = normal[a - low : b - low]


@_compiled
def _write(base, scale, start, noise, plus, minus):
    """Write base + and - scale * noise; ``noise`` is scratch afterwards. All (n,), an empty ``plus`` or ``minus`` is left out.

    ``scale``: of columns from ``start`` on, or (1,).
    """
    if scale.size == 1:
        for k in range(noise.size):
            noise[k] *= scale[0]
    else:
        spread = scale[start : start + noise.size]
        for k in range(noise.size):
            noise[k] *= spread[k]
    if plus.size:
        for k in range(noise.size):
            plus[k] = base[k] + noise[k]
    if minus.size:
        for k in range(noise.size):
            minus[k] = base[k] - noise[k]


@_compiled
def perturb(key0, key1, generation, stream, direction, base, scale, plus, minus):
    """Set ``plus`` = base + scale * noise, ``minus`` = base - scale * noise.

    All float32 of length n. ``scale`` has length n, or 1 for one scale everywhere; an empty ``plus`` or ``minus`` is left out.
    """
    count = base.size
    assert scale.size == 1 or scale.size == count
    assert (plus.size == 0 or plus.size == count) and (minus.size == 0 or minus.size == count)
    assert base.itemsize == plus.itemsize == minus.itemsize == 4
    tile_words = np.empty((4, LANE), np.uint32)
    flat = tile_words.reshape(TILE)
    normal = np.empty(TILE, np.float32)
    for tile in range((count + TILE - 1) // TILE):
        _word_counters(tile, direction, generation, stream, key0, key1, tile_words, 0, LANE)
        _normal_tile(flat, normal, TILE)
        low, high = tile * TILE, min(count, (tile + 1) * TILE)
        _write(base[low:high], scale, low, normal[: high - low], plus[low:high], minus[low:high])


@_compiled
def members(key0, key1, generation, stream, directions, signs, bases, parents, scale, out):
    """Row r of ``out`` (n, M) = bases[parents[r]] + signs[r] * scale * noise of directions[r], with the bits of :func:`perturb`.

    ``bases`` (T, M) and ``scale`` (M,) or (1,) float32; ``directions``, ``signs`` of +1 or -1, and ``parents``, all (n,) int64.
    Consecutive rows of one direction share their noise.
    """
    rows, columns = out.shape
    assert directions.size == signs.size == parents.size == rows and bases.shape[1] == columns
    assert scale.size == 1 or scale.size == columns
    for r in range(rows):
        assert 0 <= parents[r] < bases.shape[0]
    tile_words = np.empty((4, LANE), np.uint32)
    flat = tile_words.reshape(TILE)
    step = np.empty(TILE, np.float32)
    for low in range(0, columns, TILE):
        count = min(columns - low, TILE)
        for r in range(rows):
            # a mirrored pair lies side by side, so its noise is drawn once
            if r == 0 or directions[r] != directions[r - 1]:
                _word_counters(
                    low // TILE, directions[r], generation, stream, key0, key1, tile_words, 0, min(count, LANE)
                )  # fmt: skip
                _normal_tile(flat, step, count)
                for k in range(count):
                    step[k] *= scale[0 if scale.size == 1 else low + k]
            base, target = bases[parents[r], low : low + count], out[r, low : low + count]
            if signs[r] > 0:
                for k in range(count):
                    target[k] = base[k] + step[k]
            else:
                for k in range(count):
                    target[k] = base[k] - step[k]


@_compiled
def combine(key0, key1, generation, stream, directions, weights, moments, start, out):
    """Set ``out``[k] = sum over d of weights[k, d] * moment_k(noise[d]), at columns [start, start + n).

    ``weights`` (K, D) float64, ``moments`` (K,): 1 for eps, 2 for eps**2 - 1; ``out`` (K, n) float32. Summed in
    float64 in the order of the directions, so a column's bits do not depend on how the columns are cut.
    """
    # a + n <= TILE, as both are multiples of STEP; k - low - a < n
    assert weights.shape == (out.shape[0], directions.size) and moments.size == out.shape[0] and start >= 0
    tile_words = np.empty((4, LANE), np.uint32)
    flat = tile_words.reshape(TILE)
    normal = np.empty(TILE, np.float32)
    rows = weights.shape[0]
    total = np.empty((rows, TILE), np.float64)
    stop = start + out.shape[1]
    for tile in range(start // TILE, (stop + TILE - 1) // TILE):
        low = tile * TILE
        a = max(start - low, 0) // STEP * STEP
        n = (min(stop - low, TILE) + STEP - 1) // STEP * STEP - a
        # float64: sums of 10^5 directions keep their digits, and a later cast rounds once
        total[:] = 0.0
        for d in range(directions.size):
            # a direction without weight, such as one outside of the elite, costs no noise
            used = False
            for row in range(rows):
                used = used or weights[row, d] != 0.0
            if not used:
                continue
            _word_slice(tile, directions[d], generation, stream, key0, key1, tile_words, a, a + n)
            _normal_tile(flat[a : a + n], normal, n)
            for row in range(rows):
                if weights[row, d] != 0.0:
                    add_moment(normal[:n], weights[row, d], moments[row], total[row])
        for row in range(rows):
            for k in range(max(start, low), min(stop, low + TILE)):
                out[row, k - start] = np.float32(total[row, k - low - a])


WIDE = 2**12  # columns that are summed at a time: neighbours of a row, and sums that the second cache holds


@_compiled
def combine_rows(first, offsets, weights, moments, start, out):
    """Set ``out`` to the sums of :func:`combine` from rows of noise that were drawn before, to the same bits.

    ``offsets`` (D,) uintp: bytes from the array ``first`` (d, M) float32 to each row (M,), as ``noise._rows_of`` finds them.
    Ranges: d in [0, D), row in [0, K), low + k in [0, columns), and start + low + k in [0, M) of a row, as asserted.
    """
    rows = weights.shape[0]
    assert weights.shape == (out.shape[0], offsets.size) and moments.size == rows
    assert 0 <= start <= first.shape[1] - out.shape[1] and first.itemsize == 4
    near, total = np.empty(WIDE, np.float32), np.empty((rows, WIDE), np.float64)
    for low in range(0, out.shape[1], WIDE):
        n = min(WIDE, out.shape[1] - low)
        total[:] = 0.0
        for d in range(offsets.size):
            used = False
            for row in range(rows):
                used = used or weights[row, d] != 0.0
            if not used:
                continue
            source, place = nb.uintp(first.ctypes.data) + offsets[d], nb.uintp(near.ctypes.data)
            source += _FLOAT * nb.uintp(start + low)
            for _ in range(n // vectors.LANES):
                vectors.flipped(source, nb.uint32(0), place)
                source, place = source + _LINE, place + _LINE
            for _ in range(n % vectors.LANES):
                vectors.flipped_one(source, nb.uint32(0), place)
                source, place = source + _FLOAT, place + _FLOAT
            for row in range(rows):
                if weights[row, d] != 0.0:
                    add_moment(near[:n], weights[row, d], moments[row], total[row, :n])
        for row in range(rows):
            for k in range(n):
                out[row, low + k] = np.float32(total[row, k])


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
