"""Weighted sums over directions on a GPU as Triton kernels: signs, places that things land at, and noise at its places.

A program owns its part of a sum and adds the directions in their order, so no two programs add to one number, and the bits do
not depend on timing. With TRITON_INTERPRET=1 the same source runs on a CPU, slowly, so tests can compare it with its definition.
Every load and store is masked to existing columns, and to sources other than -1. Places over directions have 64 bits.

Legend: D directions, W words.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _placed_sum(
    out, shared, row_of, column_of, weights, count, rows, width, inner_width, blocks, low,
    square: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Compute a block of one row of the sum: each direction's source of it, in their order, in float64."""
    row, first = low + tl.program_id(0) // blocks, tl.program_id(0) % blocks * block
    column = first + tl.arange(0, block)
    sums = tl.full([block], 0, tl.float64)
    source, places = row_of + row, column_of + column
    for d in range(count):
        line = tl.load(source).to(tl.int64)
        if line >= 0:
            place = tl.load(places, mask=column < width, other=-1)
            value = tl.load(shared + line * inner_width + place, mask=place >= 0, other=0.0).to(tl.float64)
            sums += tl.load(weights + d) * (value * value if square else value)
        source, places = source + rows, places + width
    tl.store(out + (row - low).to(tl.int64) * width + column, sums, mask=column < width)


@triton.jit
def _weighted_signs(out, words, weights, count, width, stride, bw: tl.constexpr):
    """Compute signs of one direction times its weight."""
    row, place = tl.program_id(0), tl.program_id(1) * bw + tl.arange(0, bw)
    inside = place < count
    word = tl.load(words + row.to(tl.int64) * stride + place // 32, mask=inside, other=0)
    weight = tl.load(weights + row)
    sign = tl.where(((word >> (place % 32).to(tl.uint32)) & 1) > 0, -weight, weight)
    tl.store(out + row.to(tl.int64) * count + place, sign, mask=inside)


@triton.jit
def _counts(into, index, weights, count, things, places, bd: tl.constexpr, bw: tl.constexpr):
    """Compute weights of the directions that put one thing at each of some places; ``index`` (things, D)."""
    thing, place = tl.program_id(0), tl.program_id(1) * bw + tl.arange(0, bw)
    sums = tl.zeros([bw], tl.float32)
    for first in range(0, count, bd):
        d = first + tl.arange(0, bd)
        there = tl.load(index + thing.to(tl.int64) * count + d, mask=d < count, other=-1)
        weight = tl.load(weights + d, mask=d < count, other=0.0)
        sums += tl.sum(tl.where(there[:, None] == place[None, :], weight[:, None], 0.0), 0)
    target = into + thing.to(tl.int64) * places + place
    inside = place < places
    tl.store(target, tl.load(target, mask=inside) + sums, mask=inside)


def weighted_signs(words: Tensor, count: int, weights: Tensor) -> Tensor:
    """Launch Triton's kernel for ``rows.weighted_signs``; words (D, W) uint32 that lie side by side, weights (D,) float32."""
    out, weights = torch.empty(len(words), count, dtype=weights.dtype, device=words.device), weights.contiguous()
    if out.numel():
        bw = min(BLOCK, triton.next_power_of_2(count))
        _weighted_signs[(len(words), -(-count // bw))](out, words, weights, count, words.shape[1], words.stride(0), bw=bw)
    return out


def count_places(index: Tensor, weights: Tensor, into: Tensor) -> None:
    """Return ``placement.count_places``; index (D, r) int32, weights (D,) float32, into (r, n) float32.

    Each place is compared with what every direction put there: so the order of the sum is fixed.
    """
    if index.numel():
        bw = min(128, triton.next_power_of_2(into.shape[1]))
        grid = (index.shape[1], -(-into.shape[1] // bw))
        _counts[grid](into, index.T.contiguous(), weights.contiguous(), len(index), *index.shape[1:], into.shape[1], bd=32, bw=bw)


def placed_sum(
    shared: Tensor, rows: Tensor, columns: Tensor, weights: Tensor, target: tuple[int, int, int, int], square: bool
) -> Tensor:
    """Return the weighted sum (high - low, width) float64 of ``shared`` (r, c) with its rows and columns placed.

    rows (D, r), columns (D or 1, c): where they land; ``target`` (low, high, all rows, width).
    """
    low, high, all_rows, width = target
    # turned around, from places to sources: a program owns its part of the sum, and no two add to one number
    row_of = _sources(rows, all_rows)
    column_of = _sources(columns, width).expand(len(rows), width).contiguous()
    out = torch.empty(high - low, width, dtype=torch.float64, device=shared.device)
    blocks = -(-width // 256)
    _placed_sum[((high - low) * blocks,)](
        out,
        shared,
        row_of,
        column_of,
        weights,
        len(rows),
        all_rows,
        width,
        shared.shape[1],
        blocks,
        low,
        square=square,
        block=256,
    )
    return out


def _sources(places: Tensor, count: int) -> Tensor:
    """Return things that landed at each of ``count`` places, -1 for none: (D, count) int32 of places (D, k)."""
    found = torch.full((len(places), count), -1, dtype=torch.int32, device=places.device)
    things = torch.arange(places.shape[1], dtype=torch.int32, device=places.device).expand_as(places)
    return found.scatter_(1, places.long(), things)
