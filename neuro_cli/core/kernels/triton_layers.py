"""Layers with the members' own weights on a GPU as Triton kernels: one launch, and no second product for the centre.

A convolution is an implicit matrix product: a program has a block of one member's outputs (pixels of its examples, channels) and
reads the inputs that each tap needs. A linear layer is a convolution of one tap. The weights of a member lie in memory (dense
noise), or the centre's plus an outer product that is computed on the way (low rank).

Products are summed in float32. Those of float32 are three products of tensor cores (TF32 with its remainders), which err as
float32 does. With TRITON_INTERPRET=1 the same source runs on a CPU, slowly, so tests can compare it with its definition. Every
load and store is masked to the existing points, channels and taps of a block. The first place of a row or a member has 64 bits,
places inside of one row or one weight have 32.

Legend: S sides, D directions, e examples, n = S D e rows; C inputs, O outputs, R rank.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuro_cli.core.kernels import triton_rows

FEW = 8  # channels of an input below which a step of the sum has several taps
_CHANGING = ["scale0", "scale1"]  # values that need no recompilation


@triton.jit
def _weights(base, there, low, high, k, n, scale, low_rank, high_rank, rank: tl.constexpr):
    """Return weights (k, n) of a member; with a ``rank`` plus ``scale`` times that many outer products."""
    tile = tl.load(base, mask=there, other=0.0)
    if rank > 0:
        # the outer product is computed for the tile at hand: a member's weights never lie in memory
        step = tl.zeros(tile.shape, tl.float32)
        for q in tl.static_range(rank):
            read = tl.load(high + q * high_rank + k, mask=k >= 0, other=0.0).to(tl.float32)
            written = tl.load(low + q * low_rank + n, mask=n >= 0, other=0.0).to(tl.float32)
            step += read[:, None] * written[None, :]
        # rounded once, as dense noise in memory is
        tile = (tile.to(tl.float32) + scale * step).to(tile.dtype)
    return tile


@triton.jit(do_not_specialize=_CHANGING)
def _layer(
    out, x, weight, low, high, bias, shift, scale0, scale1, points, pixels, out_columns, blocks, directions, examples, shared,
    lines, columns, stride0, stride1, pad0, pad1, gap0, gap1, row_stride, line_stride, column_stride, channel_stride,
    member_stride, output_stride, input_stride, tap_stride, low_direction, low_rank, high_direction, high_rank,
    high_input, high_tap, shift_direction,
    outputs, inputs, height: tl.constexpr, width: tl.constexpr, rank: tl.constexpr, has_bias: tl.constexpr,
    has_shift: tl.constexpr, few: tl.constexpr, precision: tl.constexpr, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr,
):  # fmt: skip
    """Compute outputs (points, O) of each member; ``shared``: rows of the input that all sides have in common, or all."""
    member, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    direction, side = member % directions, member // directions
    scale = tl.where(side == 0, scale0, scale1).to(tl.float32)
    m, n = block * bm + tl.arange(0, bm), tl.program_id(1) * bn + tl.arange(0, bn)
    row, pixel = (member * examples + m // pixels) % shared, m % pixels
    top, left = pixel // out_columns * stride0 - pad0, pixel % out_columns * stride1 - pad1
    image = x + row.to(tl.int64) * row_stride
    member_weight = weight + member.to(tl.int64) * member_stride
    a, b = low + direction.to(tl.int64) * low_direction, high + direction.to(tl.int64) * high_direction
    filled, named = m < points, n < outputs
    ranked = tl.where(named, n, -1)
    total = tl.zeros([bm, bn], tl.float32)
    # few inputs: a step of the sum takes several taps, else tensor cores would multiply mostly zeros
    if few:
        for first in range(0, inputs * height * width, bk):
            k = first + tl.arange(0, bk)
            tap, c = k // inputs, k % inputs
            here = k < inputs * height * width
            h, w = top[:, None] + (tap // width * gap0)[None, :], left[:, None] + (tap % width * gap1)[None, :]
            inside = filled[:, None] & here[None, :] & (h >= 0) & (h < lines) & (w >= 0) & (w < columns)
            value = tl.load(
                image[:, None] + h * line_stride + w * column_stride + (c * channel_stride)[None, :], mask=inside, other=0.0
            )
            place, own_place = c * input_stride + tap * tap_stride, c * high_input + tap * high_tap
            there = member_weight + place[:, None] + (n * output_stride)[None, :]
            own = _weights(
                there, here[:, None] & named[None, :], a, b, tl.where(here, own_place, -1), ranked, scale, low_rank,
                high_rank, rank,
            )  # fmt: skip
            total = tl.dot(value, own, total, input_precision=precision)
    else:
        for tap in range(height * width):
            h, w = top + tap // width * gap0, left + tap % width * gap1
            inside = filled & (h >= 0) & (h < lines) & (w >= 0) & (w < columns)
            point = image + h * line_stride + w * column_stride
            for first in range(0, inputs, bk):
                c = first + tl.arange(0, bk)
                here = c < inputs
                value = tl.load(point[:, None] + (c * channel_stride)[None, :], mask=inside[:, None] & here[None, :], other=0.0)
                place, own_place = c * input_stride + tap * tap_stride, c * high_input + tap * high_tap
                there = member_weight + place[:, None] + (n * output_stride)[None, :]
                own = _weights(
                    there, here[:, None] & named[None, :], a, b, tl.where(here, own_place, -1), ranked, scale, low_rank,
                    high_rank, rank,
                )  # fmt: skip
                total = tl.dot(value, own, total, input_precision=precision)
    if has_bias:
        total += tl.load(bias + n, mask=named, other=0.0).to(tl.float32)[None, :]
    if has_shift:
        noise = tl.load(shift + direction.to(tl.int64) * shift_direction + n, mask=named, other=0.0).to(tl.float32)
        total += scale * noise[None, :]
    target = out + (member.to(tl.int64) * points + m) * outputs
    tl.store(target[:, None] + n[None, :], total.to(out.dtype.element_ty), mask=filled[:, None] & named[None, :])


@triton.jit
def _pooled(
    out, x, pixels, out_lines, out_columns, channels, stride0, stride1, row_stride, line_stride, column_stride, channel_stride,
    height: tl.constexpr, width: tl.constexpr, bm: tl.constexpr, bc: tl.constexpr,
):  # fmt: skip
    """Largest values of windows; out (n, pixels, C)."""
    m, c = tl.program_id(0).to(tl.int64) * bm + tl.arange(0, bm), tl.program_id(1) * bc + tl.arange(0, bc)
    both = (m < pixels)[:, None] & (c < channels)[None, :]
    column, line, row = m % out_columns, m // out_columns % out_lines, m // (out_columns * out_lines)
    first = x + row * row_stride + line * stride0 * line_stride + column * stride1 * column_stride
    there = first[:, None] + (c * channel_stride)[None, :]
    largest = tl.load(there, mask=both)
    for tap in tl.static_range(1, height * width):
        value = tl.load(there + tap // width * line_stride + tap % width * column_stride, mask=both)
        largest = tl.maximum(largest, value, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + m[:, None] * channels + c[None, :], largest, mask=both)


@triton.jit(do_not_specialize=_CHANGING)
def _spread(
    out, maps, factors, bias, shift, scale0, scale1, lines, points, channels, sided, examples, direction_stride, rank_stride,
    shift_direction, rank: tl.constexpr, has_bias: tl.constexpr, has_shift: tl.constexpr, wide: tl.constexpr, br: tl.constexpr,
    bn: tl.constexpr,
):  # fmt: skip
    """Addition of a rank to a linear layer, its bias too: out (lines, C) of maps (lines, R), ``points`` of each row."""
    first = tl.program_id(0).to(tl.int64) * br if wide else tl.program_id(0) * br
    line, n = first + tl.arange(0, br), tl.program_id(1) * bn + tl.arange(0, bn)
    filled, named = line < lines, n < channels
    row = line // points
    direction, side = ((row % sided) // examples).to(tl.int64), row // sided
    scale = tl.where(side == 0, scale0, scale1).to(tl.float32)
    both = filled[:, None] & named[None, :]
    # ranks, shift and bias are summed before the only rounding
    total = tl.zeros([br, bn], tl.float32)
    for q in tl.static_range(rank):
        amount = tl.load(maps + line * rank + q, mask=filled, other=0.0).to(tl.float32)
        place = factors + (direction * direction_stride)[:, None] + q * rank_stride + n[None, :]
        total += amount[:, None] * tl.load(place, mask=both, other=0.0).to(tl.float32)
    if has_shift:
        place = shift + (direction * shift_direction)[:, None] + n[None, :]
        total += tl.load(place, mask=both, other=0.0).to(tl.float32)
    total = scale[:, None] * total
    if has_bias:
        total += tl.load(bias + n, mask=named, other=0.0).to(tl.float32)[None, :]
    target = out + (line.to(tl.int64) * channels)[:, None] + n[None, :]
    tl.store(target, total.to(out.dtype.element_ty), mask=both)


def layer(
    x: Tensor, weight: Tensor, factors: tuple[Tensor, Tensor] | None, bias: Tensor | None, shift: Tensor | None,
    scales: tuple[float, ...], rows: tuple[int, int], geometry: Any, order: tuple[int, int] = (1, 1),
) -> Tensor:  # fmt: skip
    """Return outputs for all sides: (n, .., O) of a linear layer, for a ``rows.Geometry`` (n, O, H', W') channels last.

    ``x``: n rows, or those of one side. ``weight``: (S D, O, C, kh, kw) of any strides, or the centre's without S D and
    ``factors`` a (D, R, O) and b (D, R, C taps); ``order``: distances in b of two inputs and of two taps. ``shift`` (D, O): noise
    of ``bias``. ``rows``: (D, e).
    """
    plane = geometry is not None
    images = x if plane else x.reshape(len(x), -1, x.shape[-1]).transpose(1, 2)[:, :, None]  # points side by side
    filters = weight if plane else weight[..., None, None]
    outputs, inputs, height, width = filters.shape[-4:]
    padding, dilation, stride = (geometry.padding, geometry.dilation, geometry.stride) if plane else ((0, 0), (1, 1), (1, 1))
    sides = zip(images.shape[2:], padding, dilation, (height, width), stride, strict=True)
    high, wide = ((side + 2 * pad - gap * (taps - 1) - 1) // step + 1 for side, pad, gap, taps, step in sides)
    (directions, examples), pixels = rows, high * wide
    members, points = len(scales) * directions, examples * high * wide
    out = x.new_empty(members * examples, pixels, outputs)
    taps = filters.stride(-1) if width > 1 else filters.stride(-2)
    few, half = inputs < FEW, x.dtype != torch.float32
    bm, bn, bk, warps, stages = _tile(points, outputs, inputs, half, plane)
    a, b = factors if factors is not None else (out, out)
    blocks = -(-points // bm)
    _layer[(members * blocks, -(-outputs // bn))](
        out, images, filters, a, b, out if bias is None else bias, out if shift is None else shift, scales[0], scales[-1],
        points, pixels, wide, blocks, directions, examples, len(x), *images.shape[2:], *stride, *padding, *dilation,
        images.stride(0), images.stride(2), images.stride(3), images.stride(1),
        filters.stride(0) if filters.dim() == 5 else 0, filters.stride(-4), filters.stride(-3), taps,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), *order, 0 if shift is None else shift.stride(0), outputs, inputs,
        height=height, width=width,
        rank=0 if factors is None else a.shape[1], has_bias=bias is not None, has_shift=shift is not None, few=few,
        precision="ieee" if half else "tf32x3", bm=bm, bn=bn, bk=bk, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out.view(-1, high, wide, outputs).permute(0, 3, 1, 2) if plane else out.view(-1, *x.shape[1:-1], outputs)


def _tile(points: int, outputs: int, inputs: int, half: bool, plane: bool) -> tuple[int, int, int, int, int]:
    """Return outputs of a program (points, channels), terms of a step of its sum, its warps, and steps loaded ahead."""
    rows, columns = max(16, triton.next_power_of_2(points)), max(16, triton.next_power_of_2(outputs))
    if inputs < FEW:  # one step of the sum or a few
        return min(256 if half else 128, rows), min(64, columns), 32, 4, 2
    if columns == 16 and plane:
        return min(64, rows), 16, 16, 1, 2
    if not plane:
        return min(128, rows), min(128, columns), 64 if half and inputs % 64 == 0 else 32, 8, 3
    if rows <= 64 and half:
        return rows, min(64, columns), 64 if inputs % 64 == 0 else 32, 8 if rows <= 16 else 4, 3
    return min(128, rows), min(128 if half else 64, columns), 32, 4, 3 if columns > 64 else 2


def one_stride(weight: Tensor) -> bool:
    """Return whether the taps of a weight (.., kh, kw) lie at multiples of one distance, as :func:`layer` needs it."""
    height, width = weight.shape[-2:]
    return height == 1 or width == 1 or weight.stride(-2) == width * weight.stride(-1)


def pooled(x: Tensor, window: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """Pool on a GPU: ``F.max_pool2d`` of x (n, C, H, W) without padding, channels last in memory, without its indices."""
    high, wide = ((side - taps) // step + 1 for side, taps, step in zip(x.shape[2:], window, stride, strict=True))
    out = x.new_empty(len(x), high, wide, x.shape[1])
    pixels, channels = len(x) * high * wide, x.shape[1]
    bc = min(64, triton.next_power_of_2(channels))
    bm = 1024 // bc
    _pooled[(-(-pixels // bm), -(-channels // bc))](
        out, x, pixels, high, wide, channels, *stride, x.stride(0), x.stride(2), x.stride(3), x.stride(1), height=window[0],
        width=window[1], bm=bm, bc=bc, num_warps=4,
    )  # fmt: skip
    return out.permute(0, 3, 1, 2)


def spread(
    maps: Tensor, factors: Tensor, bias: Tensor | None, shift: Tensor | None, scales: tuple[float, ...], rows: tuple[int, int]
) -> Tensor:
    """Bias, and scale times (maps times ``factors`` (D, R, O), and ``shift`` (D, O)): (n, points, O) of maps (n, points, R)."""
    maps, factors = maps.contiguous(), factors if factors.stride(2) == 1 else factors.contiguous()
    count, points, rank = maps.shape
    channels = factors.shape[2]
    out = maps.new_empty(count, points, channels)
    br, bn = 4, min(1024, triton.next_power_of_2(channels))
    _spread[(-(-count * points // br), -(-channels // bn))](
        out, maps, factors, out if bias is None else bias, out if shift is None else shift, scales[0], scales[-1], count * points,
        points, channels, rows[0] * rows[1], rows[1], factors.stride(0), factors.stride(1),
        0 if shift is None else shift.stride(0),
        rank=rank, has_bias=bias is not None, has_shift=shift is not None, wide=maps.numel() >= triton_rows.NARROW, br=br, bn=bn,
        num_warps=4,
    )  # fmt: skip
    return out
