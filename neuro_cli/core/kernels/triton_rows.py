"""The row operations of :mod:`neuro_cli.core.rows` on a GPU as Triton kernels: one launch in place of many.

They compute in float32 and round once. With TRITON_INTERPRET=1 the same source runs on a CPU, slowly, so tests can compare it
with its definition without a GPU.

Every load and store is masked to the lines and places of its block that exist. A direction's row of words needs no mask: its
index is a remainder, valid for any line. Places have 64 bits where a tensor has more values than 32 bits count.

Legend: n = S D e rows, C channels; ``examples`` e, ``sided`` D e, ``inner`` values between two channels in memory.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
NARROW = 2**31 - BLOCK  # values that places of 32 bits count, a block beyond the last one too
SERVED = (torch.float32, torch.bfloat16, torch.float16)
_CHANGING = ["scale0", "scale1"]  # values that need no recompilation


@triton.jit
def _element(lines, width, each, sided, examples, wide: tl.constexpr, bl: tl.constexpr, bw: tl.constexpr):
    """Line, place in it, inside, direction and side of a block of lines of ``width`` values, ``each`` lines per row.

    A line is one pixel's channels if those are neighbours in memory, else one channel's pixels. So a direction's numbers are
    looked up for a line or for a place, not for each value.
    """
    # 64-bit places are compiled for large tensors alone
    first = tl.program_id(0).to(tl.int64) * bl if wide else tl.program_id(0) * bl
    line, place = first + tl.arange(0, bl), tl.program_id(1) * bw + tl.arange(0, bw)
    row = line // each
    inside = (line < lines)[:, None] & (place < width)[None, :]
    offset = line[:, None] * width + place[None, :]
    return line, place, offset, inside, (row % sided) // examples, row // sided


@triton.jit
def _sign(words, width, direction, channel, inside):
    word = tl.load(words + direction.to(tl.int64) * width + channel // 32, mask=inside, other=0)
    return tl.where(((word >> (channel % 32).to(tl.uint32)) & 1) > 0, -1.0, 1.0)


@triton.jit
def _signs(words, width, direction, channel, inside, last: tl.constexpr):
    """Return signs that broadcast against a block: of places for channels that lie ``last``, else of lines."""
    if last:
        return _sign(words, width, direction[:, None], channel[None, :], inside)
    else:  # without it both would be compiled, and have one shape
        return _sign(words, width, direction, channel, direction >= 0)[:, None]


@triton.jit
def _flip(
    out, x, words, lines, line_width, each, channels, sided, examples, width,
    last: tl.constexpr, wide: tl.constexpr, bl: tl.constexpr, bw: tl.constexpr,
):  # fmt: skip
    line, place, offset, inside, direction, _ = _element(lines, line_width, each, sided, examples, wide, bl, bw)
    value = tl.load(x + offset, mask=inside)
    # a product by +-1 is exact in every type
    sign = _signs(words, width, direction, place if last else line % channels, inside, last)
    tl.store(out + offset, (value * sign.to(value.dtype)), mask=inside)


@triton.jit(do_not_specialize=_CHANGING)
def _add_flipped(
    y, t, words, scale0, scale1, lines, line_width, each, channels, sided, examples, width,
    last: tl.constexpr, wide: tl.constexpr, bl: tl.constexpr, bw: tl.constexpr,
):  # fmt: skip
    line, place, offset, inside, direction, side = _element(lines, line_width, each, sided, examples, wide, bl, bw)
    scale = tl.where(side == 0, scale0, scale1).to(tl.float32)[:, None]
    sign = _signs(words, width, direction, place if last else line % channels, inside, last).to(tl.float32)
    # summed in float32 and rounded once, as the CPU's loops do
    step = scale * sign * tl.load(t + offset, mask=inside).to(tl.float32)
    value = tl.load(y + offset, mask=inside)
    tl.store(y + offset, (value.to(tl.float32) + step).to(value.dtype), mask=inside)


@triton.jit
def _single(count, channels, inner, size, sided, examples, wide: tl.constexpr, block: tl.constexpr):
    """Offset, inside, channel, direction and side of a block of single values of n rows of ``size``.

    For kernels that look up a channel for each value: on an H100 lines of 64 channels take them twice as long.
    """
    first = tl.program_id(0).to(tl.int64) * block if wide else tl.program_id(0) * block
    offset = first + tl.arange(0, block)
    row = (offset // size).to(tl.int32)
    channel = ((offset // inner) % channels).to(tl.int32)
    return offset, offset < count, channel, (row % sided) // examples, row // sided


@triton.jit
def _gather(
    out, x, index, count, kept, channels, inner, size, sided, examples, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Gather over the values of ``out``, with ``kept`` channels a row."""
    offset, inside, place, direction, _ = _single(count, kept, inner, size, sided, examples, wide, block)
    source = tl.load(index + direction.to(tl.int64) * kept + place, mask=inside, other=0)
    line = offset // (inner * kept)
    tl.store(out + offset, tl.load(x + (line * channels + source) * inner + offset % inner, mask=inside), mask=inside)


@triton.jit(do_not_specialize=_CHANGING)
def _add_scattered(
    y, t, index, scale0, scale1, count, kept, channels, inner, size, sided, examples,
    wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Scatter over the values of ``t``; the places of a direction differ, so no two of them meet."""
    offset, inside, place, direction, side = _single(count, kept, inner, size, sided, examples, wide, block)
    target = tl.load(index + direction.to(tl.int64) * kept + place, mask=inside, other=0)
    scale = tl.where(side == 0, scale0, scale1).to(tl.float32)
    step = scale * tl.load(t + offset, mask=inside).to(tl.float32)
    there = y + (offset // (inner * kept) * channels + target) * inner + offset % inner
    value = tl.load(there, mask=inside)
    tl.store(there, (value.to(tl.float32) + step).to(value.dtype), mask=inside)


@triton.jit(do_not_specialize=_CHANGING)
def _add_outer(
    y, maps, factors, scale0, scale1, lines, channels, points, sided, examples, rank, each, direction_stride, rank_stride,
    wide: tl.constexpr, bl: tl.constexpr, bw: tl.constexpr,
):  # fmt: skip
    """Add outer products: y (n, points, C), maps (n, points, groups R)."""
    line, channel, offset, inside, direction, side = _element(lines, channels, points, sided, examples, wide, bl, bw)
    # groups of a convolution have maps of their own
    first = (line * (channels // each * rank))[:, None] + (channel // each * rank)[None, :]
    column = factors + (direction.to(tl.int64) * direction_stride)[:, None] + channel[None, :]
    step = tl.zeros([bl, bw], tl.float32)
    for q in range(rank):
        amount = tl.load(maps + first + q, mask=inside, other=0.0).to(tl.float32)
        step += amount * tl.load(column + q * rank_stride, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(y + offset, mask=inside)
    scale = tl.where(side == 0, scale0, scale1).to(tl.float32)[:, None]
    tl.store(y + offset, (value.to(tl.float32) + scale * step).to(value.dtype), mask=inside)


@triton.jit
def _filtered(
    out, x, filters, lines, columns, out_columns, pixels, blocks, sided, examples, rank, inner, height, width,
    stride0, stride1, pad0, pad1, gap0, gap1, row_stride, line_stride, column_stride, channel_stride,
    direction_stride, rank_stride,
    taken: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    """Compute a block of one row's pixels for one group and rank; out (n, pixels, groups R), filters (D, R, kh, kw, inner)."""
    row, place = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    group, q = tl.program_id(1) // rank, tl.program_id(1) % rank
    pixel = place * taken + tl.arange(0, taken)
    top, left = pixel // out_columns * stride0 - pad0, pixel % out_columns * stride1 - pad1
    image = x + row.to(tl.int64) * row_stride + group * inner * channel_stride
    bank = filters + ((row % sided) // examples).to(tl.int64) * direction_stride + q * rank_stride
    sums = tl.full([taken], 0, tl.float32)
    for a in range(height):
        for b in range(width):
            h, w = top + a * gap0, left + b * gap1
            inside = (pixel < pixels) & (h >= 0) & (h < lines) & (w >= 0) & (w < columns)
            point = h * line_stride + w * column_stride
            for low in range(0, inner, depth):
                c = low + tl.arange(0, depth)
                there = inside[:, None] & (c < inner)[None, :]
                value = tl.load(image + point[:, None] + (c * channel_stride)[None, :], mask=there, other=0.0).to(tl.float32)
                tap = tl.load(bank + (a * width + b) * inner + c, mask=c < inner, other=0.0).to(tl.float32)
                sums += tl.sum(value * tap[None, :], 1)
    # offsets of 64 bits: a batch of many members may have 2**31 values
    target = out + (row.to(tl.int64) * pixels + pixel) * tl.num_programs(1) + tl.program_id(1)
    tl.store(target, sums.to(out.dtype.element_ty), mask=pixel < pixels)


def order_of(x: Tensor, channel: int) -> int | None:
    """Return values between two channels of a row in memory, or None where the tensor is not dense."""
    if x.movedim(channel, -1).is_contiguous():
        return 1
    return x[0, 0].numel() if x.is_contiguous() else None


def flip(x: Tensor, words: Tensor, rows: tuple[int, int], channel: int) -> Tensor:
    """Launch Triton's kernel for ``MemberBatch.flip``; ``rows`` (D, examples)."""
    x, inner = _dense(x, channel)
    out, words = torch.empty_like(x), words.contiguous()
    lines = _lines(out, inner, channel)
    _launch(_flip, lines, x.numel(), out, x, words, *lines, x.shape[channel], *_sides(rows), words.shape[1], last=inner == 1)
    return out


def add_flipped(y: Tensor, t: Tensor, words: Tensor, scales: tuple[float, ...], rows: tuple[int, int], channel: int) -> Tensor:
    """Launch Triton's kernel for ``MemberBatch.add_flipped``."""
    y, inner = _dense(y, channel)
    t, words = _like(t, inner, channel), words.contiguous()
    lines = _lines(y, inner, channel)
    shape = (*lines, y.shape[channel], *_sides(rows), words.shape[1])
    _launch(_add_flipped, lines, y.numel(), y, t, words, *_two(scales), *shape, last=inner == 1)
    return y


def gather(x: Tensor, index: Tensor, rows: tuple[int, int], channel: int) -> Tensor:
    """Launch Triton's kernel for ``MemberBatch.gather``; ``index`` (D, r) int32."""
    x, inner = _dense(x, channel)
    shape = [*x.shape]
    shape[channel] = index.shape[1]
    out = x.new_empty(shape)
    if inner == 1 and x.dim() == 4 and channel == 1:
        out = out.contiguous(memory_format=torch.channels_last)
    sizes = (out.numel(), index.shape[1], x.shape[channel], inner, out[0].numel(), *_sides(rows))
    _launch_single(_gather, out.numel(), x.numel(), out, x, index.contiguous(), *sizes)
    return out


def add_scattered(y: Tensor, t: Tensor, index: Tensor, scales: tuple[float, ...], rows: tuple[int, int], channel: int) -> Tensor:
    """Launch Triton's kernel for ``MemberBatch.add_scattered``; ``index`` (D, r) int32."""
    y, inner = _dense(y, channel)
    t = _like(t, inner, channel)
    shape = (t.numel(), index.shape[1], y.shape[channel], inner, t[0].numel(), *_sides(rows))
    _launch_single(_add_scattered, t.numel(), y.numel(), y, t, index.contiguous(), *_two(scales), *shape)
    return y


def add_outer(
    y: Tensor, maps: Tensor, factors: Tensor, scales: tuple[float, ...], rows: tuple[int, int], channel: int, groups: int
) -> Tensor:
    """Launch Triton's kernel for ``MemberBatch.add_outer``; ``factors`` (D, R, C) of any strides between directions and ranks."""
    y = y if y.movedim(channel, -1).is_contiguous() else _channels_last(y, channel)
    maps = _channels_last(maps, channel)
    factors = factors if factors.stride(2) == 1 else factors.contiguous()
    channels, lines = y.shape[channel], _lines(y, 1, channel)
    shape = (*lines, *_sides(rows), factors.shape[1], channels // groups, factors.stride(0), factors.stride(1))
    _launch(_add_outer, lines, max(y.numel(), maps.numel()), y, maps, factors, *_two(scales), *shape)
    return y


def filtered(x: Tensor, filters: Tensor, rows: tuple[int, int], geometry: Any) -> Tensor:
    """Launch Triton's kernel for ``MemberBatch.filtered``; filters (D, R, C / groups, kh, kw): (n, groups R, H', W')."""
    rank, inner, *kernel = filters.shape[1:]
    bank = filters.permute(0, 1, 3, 4, 2).contiguous()
    sides = zip(x.shape[2:], geometry.padding, geometry.dilation, kernel, geometry.stride, strict=True)
    height, width = ((side + 2 * pad - gap * (taps - 1) - 1) // step + 1 for side, pad, gap, taps, step in sides)
    out = x.new_empty(len(x), height, width, geometry.groups * rank)
    if not out.numel() or not x.numel():
        return out.zero_().permute(0, 3, 1, 2)
    block = min(64, triton.next_power_of_2(height * width))
    blocks = -(-height * width // block)
    _filtered[(len(x) * blocks, geometry.groups * rank)](
        out, x, bank, *x.shape[2:], width, height * width, blocks, rows[0] * rows[1], rows[1], rank, inner, *kernel,
        *geometry.stride, *geometry.padding, *geometry.dilation, x.stride(0), x.stride(2), x.stride(3), x.stride(1),
        bank.stride(0), bank.stride(1), taken=block, depth=min(32, triton.next_power_of_2(inner)), num_warps=4,
    )  # fmt: skip
    return out.permute(0, 3, 1, 2)


def projected(x: Tensor, filters: Tensor, rows: tuple[int, int]) -> Tensor:
    """Launch Triton's kernel for ``MemberBatch.projected``: x (n, points, C), filters (D, R, C): (n, points, R)."""
    x, filters = x.contiguous(), filters if filters.stride(2) == 1 else filters.contiguous()
    (count, points, channels), rank = x.shape, filters.shape[1]
    out = x.new_empty(count, points, rank)
    if not out.numel() or not channels:
        return out.zero_()
    block = min(16, triton.next_power_of_2(points))
    blocks = -(-points // block)
    _filtered[(count * blocks, rank)](
        out, x, filters, 1, points, points, points, blocks, rows[0] * rows[1], rows[1], rank, channels, 1, 1,
        1, 1, 0, 0, 1, 1, x.stride(0), 0, channels, 1, filters.stride(0), filters.stride(1),
        taken=block, depth=min(1024 // block, triton.next_power_of_2(channels)), num_warps=4 if block > 1 else 2,
    )  # fmt: skip
    return out


class _Lines(NamedTuple):
    """Lines of a tensor's memory, as the kernels take them: how many, values of one, lines of a row."""

    number: int
    width: int
    each: int


def _lines(x: Tensor, inner: int, channel: int) -> _Lines:
    """Return lines of ``x``, which has ``inner`` values between two channels."""
    width = x.shape[channel] if inner == 1 else inner
    return _Lines(x.numel() // max(width, 1), width, x[0].numel() // max(width, 1))


def _launch(kernel: Any, lines: _Lines, largest: int, *values: Any, **options: bool) -> None:
    """Run over all ``lines``; 64-bit places where a tensor has ``largest`` values."""
    if not lines.number * lines.width:
        return
    bw = min(BLOCK, triton.next_power_of_2(lines.width))
    bl = BLOCK // bw
    grid = (-(-lines.number // bl), -(-lines.width // bw))
    kernel[grid](*values, **options, wide=largest >= NARROW, bl=bl, bw=bw)


def _launch_single(kernel: Any, count: int, largest: int, *values: Any) -> None:
    """Run over ``count`` values; 64-bit places where a tensor has ``largest`` values."""
    if count:
        kernel[(-(-count // BLOCK),)](*values, wide=largest >= NARROW, block=BLOCK)


def _sides(rows: tuple[int, int]) -> tuple[int, int]:
    """Return rows of a side, examples of a direction."""
    return rows[0] * rows[1], rows[1]


def _dense(x: Tensor, channel: int) -> tuple[Tensor, int]:
    inner = order_of(x, channel)
    return (x, inner) if inner is not None else (x.contiguous(), order_of(x.contiguous(), channel) or 1)


def _like(t: Tensor, inner: int, channel: int) -> Tensor:
    """Return ``t`` in the order of memory that has ``inner`` values between channels."""
    if order_of(t, channel) == inner or (inner == 1 and t.movedim(channel, -1).is_contiguous()):
        return t
    return _channels_last(t, channel) if inner == 1 else t.contiguous()


def _channels_last(t: Tensor, channel: int) -> Tensor:
    return t.movedim(channel, -1).contiguous().movedim(-1, channel)


def _two(scales: tuple[float, ...]) -> tuple[float, float]:
    """Return the scales of both sides; a lone side's twice."""
    return scales[0], scales[-1]
