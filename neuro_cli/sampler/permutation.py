"""Permutations: E_i = P_i E Q_i, one matrix of noise E for all directions, its rows and columns placed at random.

"An efficient GPU implementation of natural evolution strategies for deep learning" (noise reuse). With ``sparsity`` s
below 1, E has only that share of the rows (or columns, or both) and lands on a random part of the weight, the rest of
which is left alone in that direction: a weight is then N(0, 1/s) with probability s, else 0. Mean 0, variance 1 and no
correlation hold for every s; N(0, 1) holds for s = 1.

Which sides: where one is placed, a sum over directions is one matrix product; ``both`` sums direction by direction. But
placing n outputs gives a row of the estimate n rows of E to be a sum of, so with many directions it stays in a small
space: ``auto`` places outputs where there are twice as many as directions (of one E) or as many as a row is wide, else
inputs where there are that many, else both. In a grouped convolution whole groups move with their inputs, and outputs
inside groups.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core import block_kernels, gpu, row_kernels
from neuro_cli.core.checks import number, one_of
from neuro_cli.core.layout import Place
from neuro_cli.core.noise import FACTOR_STREAM
from neuro_cli.core.rows import MemberBatch, random_orders
from neuro_cli.sampler.base import Operator, Perturbation
from neuro_cli.sampler.structured import Block, NoiseReusing, Span, StructuredPerturbation

# where E's rows land (D, r), where its columns land (D, c), and the input channels that its groups read (D, g inner);
# None: they stay in order (for the groups: all read their own)
Places = tuple[Tensor | None, Tensor | None, Tensor | None]
Factors = dict[str, Places]


@dataclass(frozen=True)
class GatherPlan:
    """How many of what a block places; 0: that side stays in order.

    ``groups`` of ``all_groups``, ``outputs`` and ``inputs`` inside a group.
    """

    groups: int
    all_groups: int
    outputs: int
    inputs: int


def _kept(share: float, count: int) -> int:
    return max(1, round(share * count))


class Permutation(NoiseReusing):
    """``sides``: auto | outputs | inputs | both; ``sparsity`` in (0, 1]; ``directions_per_noise``: None for one E a generation.

    Random words (D, W): for each block those that order its groups, its outputs, its inputs.
    """

    def __init__(
        self,
        sides: str = "auto",
        sparsity: float = 1.0,
        directions_per_noise: int | None = None,
        antithetic: bool = True,
    ) -> None:
        super().__init__(directions_per_noise, antithetic)
        self.sides = one_of("sampler.sides", sides, ("auto", "outputs", "inputs", "both"))
        self.sparsity = number("sampler.sparsity", sparsity, above=0.0, high=1.0)

    def plan(self, block: Block) -> GatherPlan:
        """What is placed in a block."""
        groups, each = block.place.groups, block.rows // block.place.groups
        if groups > 1:
            inside = each > 1
            return GatherPlan(
                _kept(1.0 if inside else self.sparsity, groups), groups, _kept(self.sparsity, each) if inside else 0, 0
            )
        if block.vector or block.inner == 1:
            return GatherPlan(0, 1, _kept(self.sparsity, block.rows), 0)
        sides = self.sides
        if sides == "auto":
            sides = self._enough(block)
        share = math.sqrt(self.sparsity) if sides == "both" else self.sparsity
        outputs, inputs = _kept(share, block.rows), _kept(share, block.inner)
        return GatherPlan(0, 1, outputs * (sides != "inputs"), inputs * (sides != "outputs"))

    def _enough(self, block: Block) -> str:
        """The side, or sides, that do not hold the estimate in a small space."""
        directions = min(self.directions, self.noise_period or self.directions)
        if block.rows >= min(2 * directions, block.width):
            return "outputs"
        return "inputs" if block.inner >= min(2 * directions, block.rows * block.spatial) else "both"

    def factor_columns(self, block: Block) -> int:
        plan = self.plan(block)
        outputs = block.rows // plan.all_groups if plan.outputs else 0
        return (plan.all_groups if plan.groups else 0) + outputs + (block.inner if plan.inputs else 0)

    def factors(self, generation: int, directions: Sequence[int]) -> Factors:
        words = self.noise.words(generation, directions, self._columns, FACTOR_STREAM)
        return {name: self._places(block, words) for name, block in self.blocks.items()}

    def _places(self, block: Block, words: Tensor) -> Places:
        plan, first = self.plan(block), block.first
        rows, inputs, channels = None, None, None
        each = block.rows // plan.all_groups
        if plan.groups:
            rows = random_orders(words[:, first : first + plan.all_groups], plan.groups)
            first += plan.all_groups
            channels = _inside(rows, torch.arange(block.inner, dtype=rows.dtype, device=rows.device)[None], block.inner)
        if plan.outputs:
            inside = random_orders(words[:, first : first + each], plan.outputs)
            first += each
            rows = inside if rows is None else _inside(rows, inside, each)
        if plan.inputs:
            inputs = random_orders(words[:, first : first + block.inner], plan.inputs)
        return rows, inputs, channels

    def shape(self, block: Block) -> tuple[int, int, float]:
        """Rows and columns (of inputs) of E, and the factor that gives its entries variance 1 on the whole weight."""
        plan = self.plan(block)
        rows = (plan.groups or 1) * (plan.outputs or block.rows // plan.all_groups)
        inner = plan.inputs or block.inner
        return rows, inner, math.sqrt(block.rows * block.inner / (rows * inner))

    def shared_cube(self, block: Block, generation: int, run: int) -> Tensor:
        """E (rows, inner, spatial) float32: a corner of the whole weight's noise."""
        rows, inner, _ = self.shape(block)
        flat = self.shared.flat(generation, run)[block.place.start : block.place.stop]
        return block.cube(flat)[:rows, :inner]

    def block_noise(self, block: Block, factors: Factors, generation: int, direction: int, dtype: torch.dtype) -> Tensor:
        cube = self.shared_cube(block, generation, self.run_of(direction)).to(dtype)
        noise = cube.new_zeros(block.rows, block.inner, block.spatial)
        rows, inputs, _ = factors[block.place.name]
        lines = torch.arange(len(cube), device=cube.device) if rows is None else rows[0].long()
        columns = torch.arange(cube.shape[1], device=cube.device) if inputs is None else inputs[0].long()
        noise[lines[:, None], columns] = cube * self.shape(block)[2]
        return noise

    def perturb_block(
        self, block: Block, factors: Factors, generation: int, direction: int, base: np.ndarray, scale: np.ndarray,
        plus: np.ndarray, minus: np.ndarray,
    ) -> None:  # fmt: skip
        rows, inputs, _ = factors[block.place.name]
        count, _, factor = self.shape(block)
        from_row = np.full(block.rows, -1, np.int32)
        from_row[np.arange(count) if rows is None else rows[0].numpy()] = np.arange(count, dtype=np.int32)
        shared = self._flat_rows(block, generation, self.run_of(direction)).numpy()
        columns = self._columns_of(block, inputs)[0].numpy()
        block_kernels.perturb_placed(base, scale, shared, np.float32(factor), from_row, columns, block.width, plus, minus)

    def _flat_rows(self, block: Block, generation: int, run: int) -> Tensor:
        """E as (rows, width) in the order of a flat row, contiguous."""
        make = lambda _: block.flat(self.shared_cube(block, generation, run)[:, None]).contiguous()  # noqa: E731
        return self.shared.weight(generation, run, (block.place.name, "rows"), make)

    def _columns_of(self, block: Block, inputs: Tensor | None) -> Tensor:
        """Where the columns of E's flat rows land in those of the weight, (D, width of E); (1, width) if in order."""
        target = torch.arange(block.width, dtype=torch.int32, device=self.noise.device)
        if inputs is None:
            return target[None]
        return block.flat(block.cube(target)[0][inputs.long()][:, None])

    def _sides(self, block: Block) -> tuple[bool, bool]:
        """Whether rows and whether inputs are placed."""
        plan = self.plan(block)
        return bool(plan.outputs or plan.groups), bool(plan.inputs)

    def gathering(self, block: Block, moment: int, low: int, high: int) -> Tensor:
        """One side placed: how often (by weight) each of E's rows, or inputs, lands where. Both: the sum itself."""
        placed_rows, placed_inputs = self._sides(block)
        rows, inner, _ = self.shape(block)
        if placed_rows and placed_inputs:
            return torch.zeros(high - low, block.width, dtype=torch.float64, device=self.noise.device)
        return torch.zeros((rows, block.rows) if placed_rows else (inner, block.inner), device=self.noise.device)

    def gather(
        self, into: Tensor, first: int, span: Span, moment: int, factors: Factors, weights: Tensor, generation: int, run: int
    ) -> None:
        block = span.block
        rows, inputs, _ = factors[block.place.name]
        if rows is None or inputs is None:
            index = inputs if rows is None else rows
            assert index is not None
            _count(index[:, first : first + len(into)], weights.float(), into)
            return
        low = span.low + first
        target = (low, low + len(into), block.rows, block.width)
        shared = self._flat_rows(block, generation, run)
        into += _placed_sum(shared, rows, self._columns_of(block, inputs), weights, target, moment == 2)

    def finished(self, gathered: Tensor, span: Span, low: int, high: int, moment: int, generation: int, run: int) -> Tensor:
        block, (_, _, factor) = span.block, self.shape(span.block)
        placed_rows, placed_inputs = self._sides(block)
        if placed_rows and placed_inputs:
            return block.cube((gathered[low - span.low : high - span.low] * factor**moment).float().flatten())
        if placed_rows:
            lines = gathered[:, low:high].T.contiguous()  # aligned alike whatever the slice
            return block.cube((lines @ (self._flat_rows(block, generation, run) * factor) ** moment).flatten())
        cube = self.shared_cube(block, generation, run)[low:high]
        made = ((cube.transpose(1, 2).contiguous() * factor) ** moment).flatten(0, 1) @ gathered
        return made.unflatten(0, (high - low, block.spatial)).transpose(1, 2)

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        return PlacedPerturbation(self, generation, first, rows, dtype)


class PlacedPerturbation(StructuredPerturbation):
    """x (P E Q)^T: inputs picked in Q's order, the layer with E, outputs put in P's."""

    sampler: Permutation

    def apply(self, place: Place, x: Tensor, y: Tensor, operator: Operator) -> Tensor:
        block = self.block(place)
        plan, (_, _, factor) = self.sampler.plan(block), self.sampler.shape(block)
        rows, inputs, channels = self.factors[block.place.name]
        picked = inputs if channels is None else channels
        x = x if picked is None else self.rows.gather(x, picked, operator.channel)
        made = operator(x, self._weight(block), plan.groups or None)
        scaled = self.rows.scaled(factor)
        return scaled.add(y, made) if rows is None else scaled.add_scattered(y, made, rows, operator.channel)

    def _weight(self, block: Block) -> Tensor:
        """E in the shape of a weight with fewer outputs or inputs, in the memory format of the layer's own."""

        def make(_: Tensor) -> Tensor:
            cube = self.sampler.shared_cube(block, self.generation, self.run)
            weight = cube.reshape(*cube.shape[:2], *block.place.shape[2:]).to(self.dtype)
            return weight.contiguous(memory_format=torch.channels_last if block.inner_last else torch.contiguous_format)

        return self.sampler.shared.weight(self.generation, self.run, (block.place.name, self.dtype), make)

    def small(self, block: Block) -> Tensor:
        count, _, factor = self.sampler.shape(block)
        rows, _, _ = self.factors[block.place.name]
        assert rows is not None
        values = self.sampler.shared_cube(block, self.generation, self.run).to(self.dtype).view(1, count) * factor
        made = values.new_zeros(len(rows), block.rows)
        return made.scatter_(1, rows.long(), values.expand(len(rows), count))


def _inside(outer: Tensor, inner: Tensor, each: int) -> Tensor:
    """Positions of things of groups: outer (D, g) groups of ``each``, inner (D or 1, k) inside a group: (D, g k)."""
    return (outer[:, :, None] * each + inner[:, None]).flatten(1)


def _count(index: Tensor, weights: Tensor, into: Tensor) -> None:
    """``into``[m, index[d, m]] += weights[d]; index (D, r), into (r, n)."""
    if index.device.type == "cpu":
        row_kernels.counts(index.numpy(), weights.numpy(), into.numpy())
        return
    lines = torch.arange(index.shape[1], device=index.device).expand_as(index)
    into.index_put_((lines, index.long()), weights[:, None].expand_as(index), accumulate=True)


def _placed_sum(
    shared: Tensor, rows: Tensor, columns: Tensor, weights: Tensor, target: tuple[int, int, int, int], square: bool
) -> Tensor:
    """The weighted sum (high - low, width) float64 of E (r, c) with its rows and columns placed.

    ``target``: (low, high, all rows, width).
    """
    low, high, _, width = target
    out = torch.zeros(high - low, width, dtype=torch.float64, device=shared.device)
    if shared.device.type == "cpu":
        block_kernels.add_placed(shared.numpy(), rows.numpy(), columns.numpy(), weights.numpy(), low, high, square, out.numpy())
        return out
    kernels = gpu.row_kernels(shared)
    if kernels is not None:
        return kernels.placed_sum(shared.contiguous(), rows, columns, weights, target, square)
    values = shared.double() ** 2 if square else shared.double()
    for order, places, weight in zip(rows.long(), columns.long(), weights, strict=True):
        chosen = (order >= low) & (order < high)
        out[(order[chosen] - low)[:, None], places] += weight * values[chosen]
    return out
