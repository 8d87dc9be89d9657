"""Convolutions of stride 1 by Winograd's products (numba, LLVM vectors), for any number of channels and pixels.

F(m, r) (Winograd 1980; Lavin and Gray, CVPR 2016, arXiv 1509.09308): m outputs of a line with r taps come from m + r - 1 products
in place of m r, in both dimensions: a tile of 4x4 outputs of 3x3 taps from 36 in place of 144, of 5x5 taps from 64 in place of
400. Inputs are spread over the points 0, 1, -1, 2, -2, 1/2, -1/2 (the first of them where fewer serve) and infinity, the products
of a point are a matrix product over the input channels, and the points are gathered. A dimension of one tap stays as it is.

Legend: B images, H x W pixels, C channels in, O channels out; pixels lie channels last. ``lines`` and ``columns`` are tuples
with an item for each tap: a loop is compiled for their lengths. The bits of an image depend on no other.
"""

from collections.abc import Sequence
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from neuro_cli.core.kernels.vectors import everywhere

ROOTS = (1.0, 2.0, 0.5)  # points are the first of these and their negatives, zero and infinity
SIDES = (0, 1, 3, 4, 3, 4, 3, 2)  # outputs of a tile, indexed by taps: at most eight points, whose sums round little


def points(taps: int) -> int:
    """Return the number of Winograd's products of a tile's line."""
    return SIDES[taps] + taps - 1


def _roots(taps: int) -> tuple[float, ...]:
    return ROOTS[: points(taps) // 2 - 1]


def _others(roots: Sequence[float], root: float) -> np.ndarray:
    """Return coefficients of y = x**2 in the product of y - r**2 over all ``roots`` but ``root``, rising."""
    return np.atleast_1d(np.poly([other**2 for other in roots if other != root]))[::-1]


def filter_lines(taps: int) -> np.ndarray:
    """Return powers of the points (points, taps) over what the spread leaves out: the product of distances to the others."""
    if taps == 1:
        return np.ones((1, 1), np.float32)
    powers, roots = np.arange(taps), _roots(taps)
    lines = [(0.0**powers) / _others(roots, 0.0)[0]]
    for root in roots:
        distance = 2 * root**2 * float(np.polyval(_others(roots, root)[::-1], root**2))
        lines += [root**powers / distance, (-root) ** powers / distance]
    return np.array([*lines, powers == taps - 1], np.float32)


def _lanes() -> int:
    """Return the numbers of a vector of the processor that numba compiles for, 0 where these loops are not for it."""
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    if "+avx512f" in features:
        return 16
    return 8 if "+avx2" in features and "+fma" in features else 0


LANES = _lanes() or 8
AVAILABLE = _lanes() > 0
TILES = 14 if LANES == 16 else 6  # tiles of a matrix product: with two vectors of outputs they fill the registers
PAIR = 2 * LANES  # outputs of a matrix product
CACHED = 2**18  # bytes of the points and sums of a block of tiles, which the second cache holds with a point's filters
_I64, _F32, _VECTOR = ir.IntType(64), ir.FloatType(), ir.VectorType(ir.FloatType(), LANES)
_BYTES = 4
LINE = 64  # bytes of the cache's lines


def _same(value: float) -> ir.Constant:
    return ir.Constant(_VECTOR, [float(value)] * LANES)


def _at(builder: ir.IRBuilder, address: ir.Value, offset: int, kind: ir.Type = _VECTOR) -> ir.Value:
    return builder.inttoptr(builder.add(address, ir.Constant(_I64, offset)), kind.as_pointer())


def _load(builder: ir.IRBuilder, address: ir.Value, offset: int = 0) -> ir.Value:
    return builder.load(_at(builder, address, offset), align=_BYTES)


def _store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, offset: int = 0) -> None:
    builder.store(value, _at(builder, address, offset), align=_BYTES)


def _everywhere(builder: ir.IRBuilder, address: ir.Value, offset: int = 0) -> ir.Value:
    """Return the number at an address in all lanes."""
    number = builder.load(_at(builder, address, offset, _F32), align=_BYTES)
    return everywhere(builder, number, LANES)


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return a b + c, rounded once."""
    name = f"llvm.fma.v{LANES}f32"
    known = builder.module.globals.get(name)
    known = known or ir.Function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), name)
    return builder.call(known, [a, b, c])


def _combined(builder: ir.IRBuilder, factors: Any, values: list[ir.Value]) -> ir.Value:
    """Return the sum of ``factors`` times ``values``, those of factor 1 first."""
    terms = sorted(zip(map(float, factors), values, strict=True), key=lambda term: term[0] != 1)
    total = None
    for factor, value in terms:
        if total is None:
            total = value if factor == 1 else builder.fmul(_same(factor), value)
        else:
            total = builder.fadd(total, value) if factor == 1 else _fused(builder, _same(factor), value, total)
    return total


def _spread_line(builder: ir.IRBuilder, taps: int, x: list[ir.Value]) -> list[ir.Value]:
    """Return a line of pixels by the points: x as a polynomial's coefficients, times the distances to all other points."""
    if taps == 1:
        return x
    roots = _roots(taps)
    made = [_combined(builder, _others(roots, 0.0), x[0::2])]
    for root in roots:  # (y + root x) times the others in y: of 1 and -1 the even part is the same, the odd part the negative
        even = _combined(builder, _others(roots, root), x[2::2])
        odd = _combined(builder, root * _others(roots, root), x[1:-1:2])
        made += [builder.fadd(even, odd), builder.fsub(even, odd)]
    return [*made, _combined(builder, _others(roots, 0.0), x[1::2])]


def _gathered_line(builder: ir.IRBuilder, taps: int, x: list[ir.Value]) -> list[ir.Value]:
    """Return a tile's line of outputs from that of points: the sum of powers of the points."""
    if taps == 1:
        return x
    pairs = [(x[i], x[i + 1]) for i in range(1, len(x) - 1, 2)]
    parts = [[builder.fadd(a, b) for a, b in pairs], [builder.fsub(a, b) for a, b in pairs]]
    powers = range(SIDES[taps])
    made = [_combined(builder, [root**power for root in _roots(taps)], parts[power % 2]) for power in powers]
    made[0] = builder.fadd(made[0], x[0])
    made[-1] = builder.fadd(made[-1], x[-1])
    return made


def _loaded(builder: ir.IRBuilder, counts: tuple[int, int], source: Any, row: Any, step: Any) -> list[list[ir.Value]]:
    """Load vectors of ``counts`` rows and columns: rows ``row`` bytes apart, end to end if that is None; columns ``step``."""
    table = []
    for _ in range(counts[0]):
        place, line = source, []
        for _ in range(counts[1]):
            line.append(_load(builder, place))
            place = builder.add(place, step)
        table.append(line)
        source = place if row is None else builder.add(source, row)
    return table


def _transformed(builder: ir.IRBuilder, transform: Any, taps: tuple[int, int], table: list[list[ir.Value]]) -> Any:
    """Return columns of ``table`` (rows, columns) after a transform of its lines and then of its columns."""
    lines = [transform(builder, taps[1], line) for line in table]
    return [transform(builder, taps[0], [line[column] for line in lines]) for column in range(len(lines[0]))]


def _spread_typed(typing, lines, columns, source, row, pixel, target, step):
    """Put the points of LANES channels of a tile, its first pixel at ``source``, to ``target``, one every ``step`` bytes."""
    taps = len(lines), len(columns)

    def code(context, builder, signature, arguments):
        _, _, source, row, pixel, target, step = arguments
        table = _loaded(builder, (points(taps[0]), points(taps[1])), source, row, pixel)
        made = _transformed(builder, _spread_line, taps, table)
        for line in range(points(taps[0])):
            for column in made:
                _store(builder, column[line], target)
                target = builder.add(target, step)
        return context.get_dummy_value()

    return types.void(lines, columns, *[types.intp] * 5), code


def _gather_typed(typing, lines, columns, source, step, bias, target, row, pixel):
    """Write LANES channels of a tile plus a bias to ``target``; ``row``, ``pixel``: bytes between pixels."""
    taps = len(lines), len(columns)

    def code(context, builder, signature, arguments):
        _, _, source, step, bias, target, row, pixel = arguments
        table = _loaded(builder, (points(taps[0]), points(taps[1])), source, None, step)
        made, shift = _transformed(builder, _gathered_line, taps, table), _load(builder, bias)
        for line in range(SIDES[taps[0]]):
            place = target
            for column in made:
                _store(builder, builder.fadd(column[line], shift), place)
                place = builder.add(place, pixel)
            target = builder.add(target, row)
        return context.get_dummy_value()

    return types.void(lines, columns, *[types.intp] * 6), code


def _product_typed(typing, spread, filters, target, channels):
    """Put TILES x PAIR sums over ``channels`` to ``target``; spread (groups, TILES, LANES), filters (channels, PAIR)."""

    def code(context, builder, signature, arguments):
        spread, filters, target, channels = arguments

        def size(value: int) -> ir.Constant:
            return ir.Constant(_I64, value)

        sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(2)] for _ in range(TILES)]
        for place in (place for pair in sums for place in pair):
            builder.store(_same(0), place)
        groups = builder.sdiv(builder.add(channels, size(LANES - 1)), size(LANES))
        with cgutils.for_range(builder, groups) as outer:
            first = builder.add(spread, builder.mul(outer.index, size(TILES * LANES * _BYTES)))
            rows = builder.add(filters, builder.mul(outer.index, size(LANES * PAIR * _BYTES)))
            left = builder.sub(channels, builder.mul(outer.index, size(LANES)))
            here = builder.select(builder.icmp_signed("<", left, size(LANES)), left, size(LANES))
            with cgutils.for_range(builder, here) as inner:
                values = builder.add(first, builder.mul(inner.index, size(_BYTES)))
                line = builder.add(rows, builder.mul(inner.index, size(PAIR * _BYTES)))
                weights = [_load(builder, line, half * LANES * _BYTES) for half in range(2)]
                for tile in range(TILES):
                    value = _everywhere(builder, values, tile * LANES * _BYTES)
                    for half in range(2):
                        place = sums[tile][half]
                        builder.store(_fused(builder, value, weights[half], builder.load(place)), place)
        for tile in range(TILES):
            for half in range(2):
                _store(builder, builder.load(sums[tile][half]), target, (tile * PAIR + half * LANES) * _BYTES)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), code


_spread: Any = intrinsic(_spread_typed)
_gather: Any = intrinsic(_gather_typed)
_product: Any = intrinsic(_product_typed)
_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)


@_compiled
def _zeros(count):
    """Return ``count`` float32 whose first byte begins a line of the cache: vectors across two lines take twice the time."""
    room = np.zeros(count + LINE // _BYTES, np.float32)
    skipped = -room.ctypes.data % LINE // _BYTES
    return room[skipped : skipped + count]


@_compiled
def _copied(images, image, low, padding, channels, padded):
    """Put ``channels`` of an image from ``low`` on into ``padded``."""
    for i in range(images.shape[1]):
        for j in range(images.shape[2]):
            source, target = images[image, i, j], padded[i + padding[0], j + padding[1]]
            for c in range(nb.uintp(channels)):  # signed ones might count from the end, and no vectors would do
                target[c] = source[nb.uintp(low) + c]


@_compiled
def _put(tile, count, out, image, y, x, low):
    """Put the pixels of a tile (m, n, LANES) that lie in ``out`` (B, H', W', O) there, ``count`` channels from ``low`` on."""
    for i in range(min(tile.shape[0], out.shape[1] - y)):
        for j in range(min(tile.shape[1], out.shape[2] - x)):
            source, target = tile[i, j], out[image, y + i, x + j]
            for c in range(nb.uintp(count)):
                target[nb.uintp(low) + c] = source[c]


@_compiled
def convolved(images, filters, bias, padding, lines, columns, group, out):
    """Put a group of a convolution of ``images`` (B, H, W, groups C) into ``out`` (B, H', W', groups O); contiguous float32.

    ``filters`` (points, pairs, C, PAIR), by :func:`filter_lines` in both dimensions, and ``bias`` (pairs PAIR,) of the outputs
    from O ``group`` on; ``padding``: zeros before the first line and column.
    """
    count, height, width, channels = images.shape[0], images.shape[1], images.shape[2], filters.shape[2]
    outputs = out.shape[3] // (images.shape[3] // channels)
    read, written = group * channels, group * outputs
    tall, wide = SIDES[len(lines)], SIDES[len(columns)]
    high, broad = tall + len(lines) - 1, wide + len(columns) - 1
    places, pairs = high * broad, (outputs + PAIR - 1) // PAIR
    assert filters.shape == (places, pairs, channels, PAIR) and bias.size == pairs * PAIR and out.shape[0] == count
    assert channels > 0 and 0 <= read <= images.shape[3] - channels and 0 <= written <= out.shape[3] - outputs
    assert filters.itemsize == bias.itemsize == out.itemsize == 4 and out.flags.c_contiguous
    assert filters.flags.c_contiguous and bias.flags.c_contiguous
    down, across = (out.shape[1] + tall - 1) // tall, (out.shape[2] + wide - 1) // wide  # tiles
    groups = (channels + LANES - 1) // LANES
    # tiles are read by address, so all of a tile's pixels must be in ``padded``
    rows, cells = (
        max(tall * down + len(lines) - 1, padding[0] + height),
        max(wide * across + len(columns) - 1, padding[1] + width),
    )
    padded = _zeros(rows * cells * groups * LANES).reshape(rows, cells, groups * LANES)
    blocks = max(1, CACHED // (_BYTES * places * TILES * (groups * LANES + pairs * PAIR)))
    # an odd number of lines for each point: a multiple of many would put all points into a few sets of the cache
    spread_room, sums_room = blocks * groups * TILES * LANES + LANES, blocks * pairs * TILES * PAIR + LANES
    spread, sums = _zeros(places * spread_room), _zeros(places * sums_room)
    spread_step, sum_step = _BYTES * spread_room, _BYTES * sums_room
    block_bytes, sum_bytes = _BYTES * groups * TILES * LANES, _BYTES * TILES * PAIR
    corner = _zeros(tall * wide * LANES).reshape(tall, wide, LANES)
    row, pixel = padded.strides[0], padded.strides[1]
    total = count * down * across
    for first in range(0, total, TILES * blocks):
        here = min(TILES * blocks, total - first)
        for place in range(here):
            image, tile = divmod(first + place, down * across)
            if tile == 0 or place == 0:
                _copied(images, image, read, padding, channels, padded)
            source = padded.ctypes.data + tall * (tile // across) * row + wide * (tile % across) * pixel
            target = spread.ctypes.data + place // TILES * block_bytes + place % TILES * LANES * _BYTES
            for group in range(groups):
                low = LANES * _BYTES * group
                _spread(lines, columns, source + low, row, pixel, target + TILES * low, spread_step)
        for point in range(places):
            for pair in range(pairs):
                for block in range((here + TILES - 1) // TILES):
                    _product(
                        spread.ctypes.data + point * spread_step + block * block_bytes,
                        filters.ctypes.data + point * filters.strides[0] + pair * filters.strides[1],
                        sums.ctypes.data + point * sum_step + (pair * blocks + block) * sum_bytes,
                        channels,
                    )
        for place in range(here):
            image, tile = divmod(first + place, down * across)
            y, x = tall * (tile // across), wide * (tile % across)
            inside = y + tall <= out.shape[1] and x + wide <= out.shape[2]
            source = sums.ctypes.data + place // TILES * sum_bytes + place % TILES * PAIR * _BYTES
            begin = out.ctypes.data + image * out.strides[0] + y * out.strides[1] + x * out.strides[2] + written * _BYTES
            for low in range(0, outputs, LANES):
                sum_at = source + low // PAIR * blocks * sum_bytes + low % PAIR * _BYTES
                if inside and low + LANES <= outputs:
                    _gather(
                        lines, columns, sum_at, sum_step, bias.ctypes.data + low * _BYTES, begin + low * _BYTES,
                        out.strides[1], out.strides[2],
                    )  # fmt: skip
                else:
                    _gather(
                        lines, columns, sum_at, sum_step, bias.ctypes.data + low * _BYTES, corner.ctypes.data,
                        corner.strides[0], corner.strides[1],
                    )  # fmt: skip
                    _put(corner, min(LANES, outputs - low), out, image, y, x, written + low)
