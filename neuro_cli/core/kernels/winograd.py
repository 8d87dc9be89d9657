"""A 5x5 convolution, the largest of each 2x2 window and ReLU in one pass, by Winograd's products (numba, LLVM vectors).

F(2x2, 5x5) (Winograd 1980; Lavin and Gray, CVPR 2016, arXiv 1509.09308): a window of 2x2 outputs comes from 36 products for
each input channel instead of 100. Its outputs are just a pooling window, so only the largest is ever written. Inputs are
spread over points 0, 1, -1, 2, -2 and infinity, the products of a point are a matrix product over the input channels, and the
points are added up. With one input channel there is nothing to gain and the sum is done as it stands.

Legend: B images, H x W pixels, C channels in, O channels out; pixels lie channels last. The bits of an image depend on no other.
"""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

POINTS, TAPS, EDGE = 6, 5, 2  # points of a line, taps of a line, zeros around the image
FILTER = (
    (1 / 4, 0, 0, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6, 1 / 3, 2 / 3),
    (1 / 24, -1 / 12, 1 / 6, -1 / 3, 2 / 3),
    (0, 0, 0, 0, 1),
)


def _lanes() -> int:
    """Numbers of a vector of the processor that numba compiles for, 0 where these loops are not for it."""
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    if "+avx512f" in features:
        return 16
    return 8 if "+avx2" in features and "+fma" in features else 0


LANES = _lanes() or 8
AVAILABLE = _lanes() > 0
TILES = 14 if LANES == 16 else 6  # windows of a matrix product: with two vectors of outputs they fill the registers
BLOCKS = 2  # matrix products of a point one after the other, while its filters are in the innermost cache
PAIR = 2 * LANES  # outputs of a matrix product
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
    """The number at an address in all lanes."""
    number = builder.load(_at(builder, address, offset, _F32), align=_BYTES)
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a b + c, rounded once."""
    name = f"llvm.fma.v{LANES}f32"
    known = builder.module.globals.get(name)
    known = known or ir.Function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), name)
    return builder.call(known, [a, b, c])


def _spread_line(builder: ir.IRBuilder, x: list[ir.Value]) -> list[ir.Value]:
    """A line of six pixels by the points: 4 x0 - 5 x2 + x4, -4 (x1 + x2) + x3 + x4, .. in twelve operations."""
    four, five, two = _same(4), _same(-5), _same(2)
    odd, even = _fused(builder, _same(-4), x[1], x[3]), _fused(builder, _same(-4), x[2], x[4])
    wide_odd, wide_even = builder.fmul(two, builder.fsub(x[3], x[1])), builder.fsub(x[4], x[2])
    return [
        _fused(builder, four, x[0], _fused(builder, five, x[2], x[4])),
        builder.fadd(even, odd),
        builder.fsub(even, odd),
        builder.fadd(wide_even, wide_odd),
        builder.fsub(wide_even, wide_odd),
        _fused(builder, four, x[1], _fused(builder, five, x[3], x[5])),
    ]


def _gathered_line(builder: ir.IRBuilder, x: list[ir.Value]) -> list[ir.Value]:
    """Two outputs of six points: x0 + .. + x4 and x1 - x2 + 2 (x3 - x4) + x5."""
    first = builder.fadd(x[0], builder.fadd(builder.fadd(x[1], x[2]), builder.fadd(x[3], x[4])))
    odd = builder.fadd(builder.fsub(x[1], x[2]), x[5])
    return [first, _fused(builder, _same(2), builder.fsub(x[3], x[4]), odd)]


def _largest(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger number; not a number where either is none."""
    larger = builder.select(builder.fcmp_ordered(">", a, b), a, b)
    return builder.select(builder.fcmp_unordered("uno", a, a), a, larger)


def _finished(builder: ir.IRBuilder, window: list[ir.Value], bias: ir.Value, target: ir.Value) -> None:
    """Write ReLU of the largest of four sums and the bias."""
    largest = _largest(builder, _largest(builder, window[0], window[1]), _largest(builder, window[2], window[3]))
    _store(builder, _largest(builder, builder.fadd(largest, _load(builder, bias)), _same(0)), target)


def _intrinsic(count: int, emit: Any) -> Any:
    """A function of ``count`` addresses or byte counts, whose code ``emit`` writes."""

    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        emit(builder, *arguments)
        return context.get_dummy_value()

    signature = types.void(*[types.intp] * count)
    makers = {
        3: lambda typing, a, b, c: (signature, code),
        4: lambda typing, a, b, c, d: (signature, code),
        5: lambda typing, a, b, c, d, e: (signature, code),
        7: lambda typing, a, b, c, d, e, f, g: (signature, code),
    }
    return intrinsic(makers[count])


def _emit_spread(builder: ir.IRBuilder, source: Any, row: Any, pixel: Any, target: Any, step: Any) -> None:
    """36 points of LANES channels: from 6x6 pixels at ``source`` to ``target``, a point every ``step`` bytes."""
    lines = []
    for _ in range(POINTS):
        place, line = source, []
        for _ in range(POINTS):
            line.append(_load(builder, place))
            place = builder.add(place, pixel)
        lines.append(_spread_line(builder, line))
        source = builder.add(source, row)
    columns = [_spread_line(builder, [line[column] for line in lines]) for column in range(POINTS)]
    for row_of_points in range(POINTS):
        for column in range(POINTS):
            _store(builder, columns[column][row_of_points], target)
            target = builder.add(target, step)


def _emit_product(builder: ir.IRBuilder, spread: Any, filters: Any, target: Any, groups: Any) -> None:
    """TILES x PAIR sums over ``groups`` of LANES channels; spread (groups, TILES, LANES), filters (groups LANES, PAIR)."""
    sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(2)] for _ in range(TILES)]
    for place in (place for pair in sums for place in pair):
        builder.store(_same(0), place)
    with cgutils.for_range(builder, groups) as outer:
        first = builder.add(spread, builder.mul(outer.index, ir.Constant(_I64, TILES * LANES * _BYTES)))
        rows = builder.add(filters, builder.mul(outer.index, ir.Constant(_I64, LANES * PAIR * _BYTES)))
        with cgutils.for_range(builder, ir.Constant(_I64, LANES)) as inner:
            values = builder.add(first, builder.mul(inner.index, ir.Constant(_I64, _BYTES)))
            line = builder.add(rows, builder.mul(inner.index, ir.Constant(_I64, PAIR * _BYTES)))
            weights = [_load(builder, line, half * LANES * _BYTES) for half in range(2)]
            for tile in range(TILES):
                value = _everywhere(builder, values, tile * LANES * _BYTES)
                for half in range(2):
                    place = sums[tile][half]
                    builder.store(_fused(builder, value, weights[half], builder.load(place)), place)
    for tile in range(TILES):
        for half in range(2):
            _store(builder, builder.load(sums[tile][half]), target, (tile * PAIR + half * LANES) * _BYTES)


def _emit_gather(builder: ir.IRBuilder, source: Any, step: Any, bias: Any, target: Any) -> None:
    """ReLU of the largest of a window's outputs, LANES channels, from its 36 points every ``step`` bytes."""
    lines = []
    for _ in range(POINTS):
        line = []
        for _ in range(POINTS):
            line.append(_load(builder, source))
            source = builder.add(source, step)
        lines.append(_gathered_line(builder, line))
    window = [value for column in range(2) for value in _gathered_line(builder, [line[column] for line in lines])]
    _finished(builder, window, bias, target)


def _emitter_of_direct(across: int) -> Any:
    """Code for ``across`` windows side by side and PAIR outputs, the sum over the taps of one channel as it stands."""

    def emit(builder: ir.IRBuilder, source: Any, row: Any, filters: Any, step: Any, bias: Any, target: Any, outputs: Any) -> None:
        places = [(tile, y, x) for tile in range(across) for y in range(2) for x in range(2)]
        sums = {(*place, half): cgutils.alloca_once(builder, _VECTOR) for place in places for half in range(2)}
        for place in sums.values():
            builder.store(_same(0), place)
        with cgutils.for_range(builder, ir.Constant(_I64, TAPS)) as loop:
            line = builder.add(source, builder.mul(loop.index, row))
            weights = builder.add(filters, builder.mul(loop.index, builder.mul(step, ir.Constant(_I64, TAPS))))
            for tap in range(TAPS):
                pair = [_load(builder, weights, half * LANES * _BYTES) for half in range(2)]
                weights = builder.add(weights, step)
                for tile, y, x in places:
                    value = _everywhere(builder, builder.add(line, row) if y else line, (2 * tile + x + tap) * _BYTES)
                    for half in range(2):
                        place = sums[tile, y, x, half]
                        builder.store(_fused(builder, value, pair[half], builder.load(place)), place)
        for tile in range(across):
            for half in range(2):
                window = [builder.load(sums[tile, y, x, half]) for y in range(2) for x in range(2)]
                low = ir.Constant(_I64, half * LANES * _BYTES)
                _finished(builder, window, builder.add(bias, low), builder.add(target, low))
            target = builder.add(target, outputs)

    return emit


_one_window, _two_windows = (_intrinsic(7, _emitter_of_direct(across)) for across in (1, 2))
_spread, _product, _gather = _intrinsic(5, _emit_spread), _intrinsic(4, _emit_product), _intrinsic(4, _emit_gather)


@nb.njit(nogil=True, cache=True, boundscheck=False)
def _zeros(count):
    """``count`` float32 whose first byte begins a line of the cache: vectors across two lines take twice the time."""
    room = np.zeros(count + LINE // _BYTES, np.float32)
    skipped = -room.ctypes.data % LINE // _BYTES
    return room[skipped : skipped + count]


@nb.njit(nogil=True, cache=True, boundscheck=False)
def convolved(images, filters, bias, out):
    """ReLU of the pooled convolution of ``images`` (B, H, W, C) into ``out`` (B, H // 2, W // 2, O); all float32.

    ``filters`` (36, O / PAIR, C, PAIR): by :data:`FILTER` on both sides; C is a multiple of LANES, O of PAIR.
    """
    count, height, width, channels = images.shape
    groups, pairs, outputs = channels // LANES, filters.shape[1], out.shape[3]
    padded = _zeros((height + 2 * EDGE) * (width + 2 * EDGE) * channels).reshape(height + 2 * EDGE, width + 2 * EDGE, channels)
    points = _zeros(POINTS * POINTS * BLOCKS * groups * TILES * LANES).reshape(POINTS * POINTS, BLOCKS, groups, TILES, LANES)
    sums = _zeros(POINTS * POINTS * pairs * BLOCKS * TILES * PAIR).reshape(POINTS * POINTS, pairs, BLOCKS, TILES, PAIR)
    row, pixel = padded.strides[0], padded.strides[1]
    across, windows = width // 2, (height // 2) * (width // 2)
    pixels, source, products = padded.ctypes.data, points.ctypes.data, sums.ctypes.data
    matrices, start, target = filters.ctypes.data, bias.ctypes.data, out.ctypes.data
    total = count * windows
    for first in range(0, total, BLOCKS * TILES):
        here = min(BLOCKS * TILES, total - first)
        for tile in range(here):
            image, window = divmod(first + tile, windows)
            if window == 0:
                padded[EDGE : EDGE + height, EDGE : EDGE + width] = images[image]
            corner = pixels + 2 * (window // across) * row + 2 * (window % across) * pixel
            place = source + tile // TILES * points.strides[1] + tile % TILES * points.strides[3]
            for group in range(groups):
                _spread(corner + LANES * _BYTES * group, row, pixel, place + group * points.strides[2], points.strides[0])
        for point in range(POINTS * POINTS):
            for pair in range(pairs):
                for block in range((here + TILES - 1) // TILES):
                    _product(
                        source + point * points.strides[0] + block * points.strides[1],
                        matrices + point * filters.strides[0] + pair * filters.strides[1],
                        products + point * sums.strides[0] + pair * sums.strides[1] + block * sums.strides[2],
                        groups,
                    )
        for tile in range(here):
            place = products + tile // TILES * sums.strides[2] + tile % TILES * sums.strides[3]
            for half in range(2 * pairs):
                low = half // 2 * sums.strides[1] + half % 2 * LANES * _BYTES
                channel = _BYTES * LANES * half
                _gather(place + low, sums.strides[0], start + channel, target + _BYTES * outputs * (first + tile) + channel)


@nb.njit(nogil=True, cache=True, boundscheck=False)
def convolved_directly(images, filters, bias, out):
    """ReLU of the pooled convolution of ``images`` (B, H, W), of one channel, into ``out`` (B, H // 2, W // 2, O).

    ``filters`` (25, O); O is a multiple of PAIR.
    """
    count, height, width = images.shape
    pairs, across = out.shape[3] // PAIR, width // 2
    padded = _zeros((height + 2 * EDGE) * (width + 2 * EDGE)).reshape(height + 2 * EDGE, width + 2 * EDGE)
    row, step, pixel = padded.strides[0], filters.strides[0], out.strides[2]
    for image in range(count):
        padded[EDGE : EDGE + height, EDGE : EDGE + width] = images[image]
        for y in range(height // 2):
            source, target = padded.ctypes.data + 2 * y * row, out.ctypes.data + image * out.strides[0] + y * out.strides[1]
            for pair in range(pairs):
                low = _BYTES * PAIR * pair
                weights, sums, place = filters.ctypes.data + low, bias.ctypes.data + low, target + low
                twos = across // 2 * 2 if LANES == 16 else 0  # eight sums and what they are made of are what 16 registers hold
                for x in range(0, twos, 2):
                    _two_windows(source + 2 * _BYTES * x, row, weights, step, sums, place + x * pixel, pixel)
                for x in range(twos, across):
                    _one_window(source + 2 * _BYTES * x, row, weights, step, sums, place + x * pixel, pixel)
