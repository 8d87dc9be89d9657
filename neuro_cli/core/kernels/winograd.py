"""A 5x5 convolution, the largest of each 2x2 window and ReLU in one pass, by Winograd's products (numba, LLVM vectors).

F(4x4, 5x5) (Winograd 1980; Lavin and Gray, CVPR 2016, arXiv 1509.09308): a tile of 4x4 outputs comes from 64 products for each
input channel instead of 400. It is four pooling windows, so only their largest are ever written. Inputs are spread over
points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity, the products of a point are a matrix product over the input channels, and the
points are gathered. With one input channel there is nothing to gain and the sum is done as it stands.

Legend: B images, H x W pixels, C channels in, O channels out; pixels lie channels last. The bits of an image depend on no other.
"""

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

TAPS, EDGE = 5, 2  # taps of a line, zeros around the image
SIDE = 4  # of a tile
ROOTS = (1.0, 2.0, 0.5)  # points are these, their negatives, zero and infinity
POINTS = 2 * len(ROOTS) + 2  # of a line


def _others(root: float) -> np.ndarray:
    """Coefficients of y = x**2 in the product of y - r**2 over all ``ROOTS`` but ``root``, rising."""
    return np.poly([other**2 for other in ROOTS if other != root])[::-1]


def _filter_lines() -> np.ndarray:
    """Powers of the points (POINTS, TAPS), divided by what the spread leaves out: the product of distances to the others."""
    powers, all_roots = np.arange(TAPS), _others(0.0)
    lines = [(0.0**powers) / all_roots[0]]
    for root in ROOTS:
        distance = 2 * root**2 * float(np.polyval(_others(root)[::-1], root**2))
        lines += [root**powers / distance, (-root) ** powers / distance]
    return np.array([*lines, powers == TAPS - 1], np.float32)


FILTER = _filter_lines()


def _lanes() -> int:
    """Numbers of a vector of the processor that numba compiles for, 0 where these loops are not for it."""
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    if "+avx512f" in features:
        return 16
    return 8 if "+avx2" in features and "+fma" in features else 0


LANES = _lanes() or 8
AVAILABLE = _lanes() > 0
TILES = 14 if LANES == 16 else 6  # windows of a matrix product: with two vectors of outputs they fill the registers
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


def _combined(builder: ir.IRBuilder, factors: Any, values: list[ir.Value]) -> ir.Value:
    """The sum of ``factors`` times ``values``, those of factor 1 first."""
    terms = sorted(zip(map(float, factors), values, strict=True), key=lambda term: term[0] != 1)
    total = None
    for factor, value in terms:
        if total is None:
            total = value if factor == 1 else builder.fmul(_same(factor), value)
        else:
            total = builder.fadd(total, value) if factor == 1 else _fused(builder, _same(factor), value, total)
    return total


def _spread_line(builder: ir.IRBuilder, x: list[ir.Value]) -> list[ir.Value]:
    """A line of pixels by the points: x as a polynomial's coefficients, times the distances to all other points."""
    made = [_combined(builder, _others(0.0), x[0::2])]
    for root in ROOTS:  # (y + root x) times the others in y: of 1 and -1 the even part is the same, the odd part the negative
        even = _combined(builder, _others(root), x[2::2])
        odd = _combined(builder, root * _others(root), x[1:-1:2])
        made += [builder.fadd(even, odd), builder.fsub(even, odd)]
    return [*made, _combined(builder, _others(0.0), x[1::2])]


def _gathered_line(builder: ir.IRBuilder, x: list[ir.Value]) -> list[ir.Value]:
    """A tile's line of outputs from that of points: the sum of powers of the points."""
    pairs = [(x[i], x[i + 1]) for i in range(1, POINTS - 1, 2)]
    parts = [[builder.fadd(a, b) for a, b in pairs], [builder.fsub(a, b) for a, b in pairs]]
    made = [_combined(builder, [root**power for root in ROOTS], parts[power % 2]) for power in range(SIDE)]
    return [builder.fadd(made[0], x[0]), *made[1:-1], builder.fadd(made[-1], x[-1])]


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
        4: lambda typing, a, b, c, d: (signature, code),
        5: lambda typing, a, b, c, d, e: (signature, code),
        7: lambda typing, a, b, c, d, e, f, g: (signature, code),
    }
    return intrinsic(makers[count])


def _emit_spread(builder: ir.IRBuilder, source: Any, row: Any, pixel: Any, target: Any, step: Any) -> None:
    """The points of LANES channels: from the pixels of a tile at ``source`` to ``target``, a point every ``step`` bytes."""
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


def _emit_gather(builder: ir.IRBuilder, source: Any, step: Any, bias: Any, *targets: Any) -> None:
    """ReLU of the largest of each window of a tile, LANES channels, from its points every ``step`` bytes, to ``targets``."""
    lines = []
    for _ in range(POINTS):
        line = []
        for _ in range(POINTS):
            line.append(_load(builder, source))
            source = builder.add(source, step)
        lines.append(_gathered_line(builder, line))
    columns = [_gathered_line(builder, [line[column] for line in lines]) for column in range(SIDE)]
    for number, target in enumerate(targets):
        y, x = 2 * (number // 2), 2 * (number % 2)
        _finished(builder, [columns[x + j][y + i] for i in range(2) for j in range(2)], bias, target)


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
_spread, _product, _gather = _intrinsic(5, _emit_spread), _intrinsic(4, _emit_product), _intrinsic(7, _emit_gather)


@nb.njit(nogil=True, cache=True, boundscheck=False)
def _zeros(count):
    """``count`` float32 whose first byte begins a line of the cache: vectors across two lines take twice the time."""
    room = np.zeros(count + LINE // _BYTES, np.float32)
    skipped = -room.ctypes.data % LINE // _BYTES
    return room[skipped : skipped + count]


@nb.njit(nogil=True, cache=True, boundscheck=False)
def convolved(images, filters, bias, out):
    """ReLU of the pooled convolution of ``images`` (B, H, W, C) into ``out`` (B, H // 2, W // 2, O); all float32.

    ``filters`` (POINTS**2, O / PAIR, C, PAIR): by :data:`FILTER` on both sides; C is a multiple of LANES, O of PAIR.
    """
    count, height, width, channels = images.shape
    assert filters.shape == (POINTS * POINTS, out.shape[3] // PAIR, channels, PAIR) and bias.size == out.shape[3]
    assert channels % LANES == 0 and out.shape[3] % PAIR == 0 and out.shape[:3] == (count, height // 2, width // 2)
    # by address, for which a tile's pixels are in ``padded`` (tall >= height + EDGE), and what is beyond ``out`` goes nowhere
    assert filters.itemsize == bias.itemsize == out.itemsize == 4
    assert filters.flags.c_contiguous and bias.flags.c_contiguous and out.flags.c_contiguous
    groups, pairs, places = channels // LANES, filters.shape[1], POINTS * POINTS
    down, across = (out.shape[1] + 1) // 2, (out.shape[2] + 1) // 2  # tiles
    tall, wide = SIDE * down + TAPS - 1, SIDE * across + TAPS - 1
    padded = _zeros(tall * wide * channels).reshape(tall, wide, channels)
    # an odd number of lines for each point: a multiple of many would put all points into a few sets of the cache
    points_room, sums_room = groups * TILES * LANES + LANES, pairs * TILES * PAIR + LANES
    points, sums = _zeros(places * points_room), _zeros(places * sums_room)
    point_step, sum_step = _BYTES * points_room, _BYTES * sums_room
    sums_of_pair = _BYTES * TILES * PAIR
    nowhere = _zeros(LANES)
    row, pixel, line, window = padded.strides[0], padded.strides[1], out.strides[1], out.strides[2]
    total = count * down * across
    for first in range(0, total, TILES):
        here = min(TILES, total - first)
        for place in range(here):
            image, tile = divmod(first + place, down * across)
            if tile == 0:
                padded[EDGE : EDGE + height, EDGE : EDGE + width] = images[image]
            corner = padded.ctypes.data + SIDE * (tile // across) * row + SIDE * (tile % across) * pixel
            target = points.ctypes.data + place * LANES * _BYTES
            for group in range(groups):
                low = LANES * _BYTES * group
                _spread(corner + low, row, pixel, target + TILES * low, point_step)
        for point in range(places):
            for pair in range(pairs):
                _product(
                    points.ctypes.data + point * point_step,
                    filters.ctypes.data + point * filters.strides[0] + pair * filters.strides[1],
                    sums.ctypes.data + point * sum_step + pair * sums_of_pair,
                    groups,
                )
        for place in range(here):
            image, tile = divmod(first + place, down * across)
            y, x = 2 * (tile // across), 2 * (tile % across)
            source = sums.ctypes.data + place * PAIR * _BYTES
            corner = out.ctypes.data + image * out.strides[0] + y * line + x * window
            for half in range(2 * pairs):
                low = half * LANES * _BYTES
                target, spare = corner + low, nowhere.ctypes.data
                right, below = x + 1 < out.shape[2], y + 1 < out.shape[1]
                _gather(
                    source + half // 2 * sums_of_pair + half % 2 * LANES * _BYTES,
                    sum_step,
                    bias.ctypes.data + low,
                    target,
                    target + window if right else spare,
                    target + line if below else spare,
                    target + line + window if right and below else spare,
                )


@nb.njit(nogil=True, cache=True, boundscheck=False)
def convolved_directly(images, filters, bias, out):
    """ReLU of the pooled convolution of ``images`` (B, H, W), of one channel, into ``out`` (B, H // 2, W // 2, O).

    ``filters`` (25, O); O is a multiple of PAIR.
    """
    count, height, width = images.shape
    assert filters.shape == (TAPS * TAPS, out.shape[3]) and bias.size == out.shape[3] and out.shape[3] % PAIR == 0
    assert out.shape[:3] == (count, height // 2, width // 2)
    # by address: the last window reads columns up to 2 across + 3 < width + 2 EDGE of ``padded``, and so for rows
    assert filters.itemsize == bias.itemsize == out.itemsize == 4
    assert filters.flags.c_contiguous and bias.flags.c_contiguous and out.flags.c_contiguous
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
