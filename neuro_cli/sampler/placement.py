"""Random places of the rows, inputs and groups of a block, and weighted sums of placed noise.

Legend: D directions; E the shared noise, (r, c) of a block's (n, width).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from neuro_cli.core.kernels import gpu
from neuro_cli.core.kernels.compiled import block_kernels, row_kernels
from neuro_cli.core.rows import random_orders
from neuro_cli.sampler.blocks import Block


@dataclass(frozen=True)
class PlacementPlan:
    """Numbers of groups, outputs and inputs that a block places; 0: that side stays in order.

    ``groups`` of ``all_groups``, ``outputs`` and ``inputs`` inside a group.
    """

    groups: int
    all_groups: int
    outputs: int
    inputs: int

    def columns(self, block: Block) -> int:
        """Number of random words that a direction needs for the block."""
        outputs = block.rows // self.all_groups if self.outputs else 0
        return (self.all_groups if self.groups else 0) + outputs + (block.inner if self.inputs else 0)

    def draw(self, block: Block, words: Tensor) -> "Placement":
        """Draw places from ``words`` (D, W), which serve all blocks."""
        first, each = block.first, block.rows // self.all_groups
        rows, inputs, channels = None, None, None
        if self.groups:
            rows = random_orders(words[:, first : first + self.all_groups], self.groups)
            first += self.all_groups
            # E's k-th group lands on group rows[k] of the layer, and reads that group's inputs
            channels = _inside(rows, torch.arange(block.inner, dtype=torch.int32, device=rows.device)[None], block.inner)
        if self.outputs:
            inside = random_orders(words[:, first : first + each], self.outputs)
            first += each
            rows = inside if rows is None else _inside(rows, inside, each)
        if self.inputs:
            inputs = random_orders(words[:, first : first + block.inner], self.inputs)
        return Placement(rows, inputs, channels)


class Placement(NamedTuple):
    """Places in the weight. None: E's order stays; for ``channels``: every group reads its own."""

    rows: Tensor | None  # place of each of E's rows, (D, r)
    inputs: Tensor | None  # place of each of E's columns, (D, c)
    channels: Tensor | None  # inputs that E's groups read, (D, g inner)


def _inside(outer: Tensor, inner: Tensor, each: int) -> Tensor:
    """Return positions (D, g k) from groups ``outer`` (D, g) of ``each`` positions and ``inner`` (D or 1, k) inside a group."""
    return (outer[:, :, None].to(torch.int32) * each + inner[:, None]).flatten(1)


def count_places(index: Tensor, weights: Tensor, into: Tensor) -> None:
    """Add ``into``[m, index[d, m]] += weights[d]; index (D, r), into (r, n)."""
    if index.device.type == "cpu":
        row_kernels.counts(index.numpy(), weights.numpy(), into.numpy())
        return
    kernels = gpu.sum_kernels(weights)
    if kernels is not None and into.is_contiguous():
        kernels.count_places(index, weights, into)
        return
    lines = torch.arange(index.shape[1], device=index.device).expand_as(index)
    into.index_put_((lines, index.long()), weights[:, None].expand_as(index), accumulate=True)


def placed_sum(
    shared: Tensor, rows: Tensor, columns: Tensor, weights: Tensor, target: tuple[int, int, int, int], square: bool
) -> Tensor:
    """Return the weighted sum (high - low, width) float64 of E (r, c) with its rows and columns placed.

    ``target``: (low, high, all rows, width).
    """
    low, high, _, width = target
    out = torch.zeros(high - low, width, dtype=torch.float64, device=shared.device)
    if shared.device.type == "cpu":
        block_kernels.add_placed(shared.numpy(), rows.numpy(), columns.numpy(), weights.numpy(), low, high, square, out.numpy())
        return out
    kernels = gpu.sum_kernels(shared)
    if kernels is not None:
        return kernels.placed_sum(shared.contiguous(), rows, columns, weights, target, square)
    values = shared.double() ** 2 if square else shared.double()
    for order, places, weight in zip(rows.long(), columns.long(), weights, strict=True):
        chosen = (order >= low) & (order < high)
        out[(order[chosen] - low)[:, None], places] += weight * values[chosen]
    return out
