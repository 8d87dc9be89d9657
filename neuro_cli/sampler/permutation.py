"""Permutations: E_i = P_i E Q_i, one matrix of noise E for all directions, its rows and columns placed at random.

"An efficient GPU implementation of natural evolution strategies for deep learning" (noise reuse). With ``sparsity`` s
below 1, E has only that share of the rows (or columns, or both) and lands on a random part of the weight; a direction leaves the
rest unperturbed. A weight is then N(0, 1/s) with probability s, else 0. Mean 0, variance 1 and no correlation hold for every s;
N(0, 1) holds for s = 1.

Sides: with one side placed, a sum over directions is one matrix product; ``both`` sums direction by direction. But where n
outputs are placed, a row of the estimate is a sum of the n rows of E, so that many directions span a small space only. ``auto``
places outputs where there are twice as many as directions (of one E) or as many as a row is wide, else inputs where there are
that many, else both. In a grouped convolution groups move together with their inputs, and outputs move inside groups.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.checks import number, one_of
from neuro_cli.core.kernels.compiled import block_kernels, product_kernels
from neuro_cli.core.layout import ParameterLayout, Place
from neuro_cli.core.noise import FACTOR_STREAM, Noise
from neuro_cli.core.rows import MemberBatch, placed_values
from neuro_cli.sampler.base import Operator, Perturbation
from neuro_cli.sampler.blocks import Address, Block, BlockSum, Sides
from neuro_cli.sampler.placement import Placement, PlacementPlan, count_places, placed_sum
from neuro_cli.sampler.shared_noise import NoiseReusing
from neuro_cli.sampler.structured import StructuredPerturbation, Writer

Factors = dict[str, Placement]  # placements by name of the block


def _kept(share: float, count: int) -> int:
    return max(1, round(share * count))


class Permutation(NoiseReusing):
    """Noise reuse by placement: one matrix of noise E, with its rows or columns placed at random for each direction.

    ``sides`` that are placed: auto | outputs | inputs | both. ``sparsity`` in (0, 1]: share of a weight that a direction
    perturbs. ``directions_per_noise`` >= 1: directions for each E, None: one E a generation. ``antithetic``: members in mirrored
    pairs. Random words (D, W) order, for each block, its groups, its outputs and its inputs. Raises ConfigError.
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

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        self._plans: dict[str, PlacementPlan] = {}
        super().bind(noise, population, layout)

    def plan(self, block: Block) -> PlacementPlan:
        """Return how many groups, outputs and inputs of a block are placed."""
        if block.place.name not in self._plans:
            self._plans[block.place.name] = self._plan(block)
        return self._plans[block.place.name]

    def _plan(self, block: Block) -> PlacementPlan:
        groups, each = block.place.groups, block.rows // block.place.groups
        if groups > 1:
            # depthwise groups have one output each and no order inside, so that sparsity removes groups instead
            inside = each > 1
            return PlacementPlan(
                _kept(1.0 if inside else self.sparsity, groups), groups, _kept(self.sparsity, each) if inside else 0, 0
            )
        if block.vector or block.inner == 1:
            return PlacementPlan(0, 1, _kept(self.sparsity, block.rows), 0)
        sides = self.sides
        if sides == "auto":
            sides = self._enough(block)
        share = math.sqrt(self.sparsity) if sides == "both" else self.sparsity
        outputs, inputs = _kept(share, block.rows), _kept(share, block.inner)
        return PlacementPlan(0, 1, outputs * (sides != "inputs"), inputs * (sides != "outputs"))

    def _enough(self, block: Block) -> str:
        """Return the side or sides whose placement does not confine the estimate to a small space."""
        directions = min(self.directions, self.noise_period or self.directions)
        if block.rows >= min(2 * directions, block.width):
            return "outputs"
        return "inputs" if block.inner >= min(2 * directions, block.rows * block.spatial) else "both"

    def factor_columns(self, block: Block) -> int:
        return self.plan(block).columns(block)

    def factors(self, generation: int, directions: Sequence[int]) -> Factors:
        words = self.noise.words(generation, directions, self._columns, FACTOR_STREAM)
        return {name: self.plan(block).draw(block, words) for name, block in self.blocks.items()}

    def shape(self, block: Block) -> tuple[int, int, float]:
        """Return rows and columns (of inputs) of E, which is permuted, and the factor for variance 1 over the weight."""
        plan = self.plan(block)
        rows = (plan.groups or 1) * (plan.outputs or block.rows // plan.all_groups)
        inner = plan.inputs or block.inner
        return rows, inner, math.sqrt(block.rows * block.inner / (rows * inner))

    def shared_cube(self, block: Block, address: Address) -> Tensor:
        """Return E of the permutation (rows, inner, spatial) float32, a corner of the weight's noise."""
        rows, inner, _ = self.shape(block)
        return block.cube(self.shared.flat(address)[block.columns])[:rows, :inner]

    def block_noise(
        self, block: Block, factors: Factors, address: Address, dtype: torch.dtype, lines: Tensor | None = None
    ) -> Tensor:
        cube = self.shared_cube(block, address).to(dtype) * self.shape(block)[2]
        rows, inputs, _ = factors[block.place.name]
        if rows is not None or lines is not None:
            sources = self._sources(block, rows, len(cube))
            sources = sources if lines is None else sources.expand(len(lines), -1).gather(1, lines)
            cube = cube[sources.clamp(min=0)].masked_fill(sources[:, :, None, None] < 0, 0.0)
        else:
            cube = cube[None]
        if inputs is None:
            return cube
        cube = cube.expand(len(inputs), -1, -1, -1)
        noise = cube.new_zeros(len(inputs), cube.shape[1], block.inner, block.spatial)
        return noise.scatter_(2, inputs.long()[:, None, :, None].expand(cube.shape), cube)

    def _sources(self, block: Block, rows: Tensor | None, count: int) -> Tensor:
        """Return the row of E in each row of the weight, -1 for none: (D or 1, rows) int64."""
        order = torch.arange(count, device=self.noise.device)
        if rows is None:
            return order[None]
        sources = torch.full((len(rows), block.rows), -1, dtype=torch.int64, device=rows.device)
        return sources.scatter_(1, rows.long(), order.expand(len(rows), -1))

    def perturb_block(
        self, block: Block, factors: Factors, address: Address, base: np.ndarray, scale: np.ndarray, out: Sides
    ) -> None:
        rows, inputs, _ = factors[block.place.name]
        count, _, factor = self.shape(block)
        # the kernel writes the weight row by row, so it needs the source of each row instead of the target of E's rows
        from_row = np.full(block.rows, -1, np.int32)
        from_row[np.arange(count) if rows is None else rows[0].numpy()] = np.arange(count, dtype=np.int32)
        placed = (
            self._flat_rows(block, address).numpy(),
            np.float32(factor),
            from_row,
            self._columns_of(block, inputs)[0].numpy(),
        )
        block_kernels.perturb_placed(base, scale, *placed, block.width, out.plus, out.minus)

    def _flat_rows(self, block: Block, address: Address) -> Tensor:
        """Return E as (rows, width) in the order of a flat row, contiguous."""
        make = lambda _: block.flat(self.shared_cube(block, address)[:, None]).contiguous()  # noqa: E731
        return self.shared.weight(address, (block.place.name, "rows"), make)

    def _columns_of(self, block: Block, inputs: Tensor | None) -> Tensor:
        """Return the weight's column for each column of E's flat rows, (D, width of E); (1, width) if in order."""
        target = torch.arange(block.width, dtype=torch.int32, device=self.noise.device)
        if inputs is None:
            return target[None]
        return block.flat(block.cube(target)[0][inputs.long()][:, None])

    def _sides(self, block: Block) -> tuple[bool, bool]:
        """Return whether rows and whether inputs are placed."""
        plan = self.plan(block)
        return bool(plan.outputs or plan.groups), bool(plan.inputs)

    def partial_zeros(self, target: BlockSum, out: Tensor | None = None) -> Tensor:
        """Return zeros for the weights with which E's rows or inputs land at each place; with both placed for the sum itself."""
        block, (rows, inner, _) = target.block, self.shape(target.block)
        placed_rows, placed_inputs = self._sides(block)
        if placed_rows and placed_inputs:
            return torch.zeros(target.high - target.low, block.width, dtype=torch.float64, device=self.noise.device)
        return torch.zeros(
            (rows, block.rows) if placed_rows else (inner, block.inner), device=self.noise.device, dtype=torch.float32
        )

    def accumulate(self, lines: Tensor, first: int, target: BlockSum, factors: Factors, weights: Tensor) -> None:
        block = target.block
        rows, inputs, _ = factors[block.place.name]
        if rows is None or inputs is None:
            index = inputs if rows is None else rows
            assert index is not None
            count_places(index[:, first : first + len(lines)], weights.float(), lines)
            return
        low, shared = target.low + first, self._flat_rows(block, target.address)
        bounds = (low, low + len(lines), block.rows, block.width)
        lines += placed_sum(shared, rows, self._columns_of(block, inputs), weights, bounds, target.moment == 2)

    def assemble(self, partial: Tensor, target: BlockSum, low: int, high: int) -> Tensor:
        block = target.block
        placed_rows, placed_inputs = self._sides(block)
        if placed_rows and placed_inputs:
            factor = self.shape(block)[2]
            return block.cube((partial[low - target.low : high - target.low] * factor**target.moment).float().flatten())
        summed = self._product(partial, target, low, high)
        if placed_rows:
            return block.cube(summed.flatten())
        return summed.unflatten(0, (high - low, block.spatial)).transpose(1, 2)

    def write(self, partial: Tensor, target: BlockSum, low: int, high: int, out: Tensor) -> None:
        block = target.block
        placed_rows, placed_inputs = self._sides(block)
        if (placed_rows and placed_inputs) or (placed_inputs and block.spatial > 1):
            super().write(partial, target, low, high, out)
        else:  # the product is in the order of the flat vector
            self._product(partial, target, low, high, out.view(high - low, block.width))

    def _product(self, partial: Tensor, target: BlockSum, low: int, high: int, out: Tensor | None = None) -> Tensor:
        """Return the sum of rows [low, high), (rows, width), in ``out`` if given; for placed inputs (rows spatial, inner)."""
        left, first, right = self._factors_of(partial, target, low, high)
        height = (high - low) * (1 if self._sides(target.block)[0] else target.block.spatial)
        if left.device.type != "cpu":
            return torch.mm(left[:, first : first + height].T, right, out=out)
        result = left.new_empty(height, right.shape[1]) if out is None else out
        ones = np.ones(len(left), np.float32)
        product_kernels.add_products(left.numpy(), first, 0, right.numpy(), 0, 0, 1, ones, result.zero_().numpy())
        return result

    def _factors_of(self, partial: Tensor, target: BlockSum, low: int, high: int) -> tuple[Tensor, int, Tensor]:
        """Return matrices a (k, n) and b (k, width), and the column c of a with which the sum begins: a[:, c:]^T b.

        For placed inputs a is (k, rows spatial) and b (k, inner).
        """
        block, factor, square = target.block, self.shape(target.block)[2], target.moment == 2
        counts = partial if factor == 1.0 else partial * factor**target.moment
        if self._sides(block)[0]:
            noise = self._flat_rows(block, target.address)
            return counts, low, noise * noise if square else noise
        noise = self.shared_cube(block, target.address)[low:high].transpose(1, 2).flatten(0, 1).T.contiguous()
        return noise * noise if square else noise, 0, counts

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        return PlacedPerturbation(self, generation, first, rows, dtype)


class PlacedPerturbation(StructuredPerturbation):
    """x (P E Q)^T: select inputs in Q's order, apply the layer with E, place outputs in P's order; transposed: in reverse."""

    sampler: Permutation

    def writer(self, block: Block) -> Writer | None:
        if self.sampler.shape(block)[2] != 1.0:
            return None
        name, placed = block.place.name, self.factors[block.place.name]

        def write(place: int, base: np.ndarray, scale: np.ndarray, out: Sides) -> None:
            one = Placement(*(None if part is None else part[place : place + 1] for part in placed))
            self.sampler.perturb_block(block, {name: one}, self.address, base, scale, out)

        return write

    def apply(self, place: Place, x: Tensor, y: Tensor, operator: Operator) -> Tensor:
        block = self.block(place)
        plan, (_, _, factor) = self.sampler.plan(block), self.sampler.shape(block)
        rows, inputs, channels = self.factors[block.place.name]
        picked = inputs if channels is None else channels
        read, written = (rows, picked) if operator.transposed else (picked, rows)
        x = x if read is None else self.rows.gather(x, read, operator.channel)
        outputs = operator(x, self._weight(block), plan.groups or None)
        scaled = self.rows.scaled(factor)
        return scaled.add(y, outputs) if written is None else scaled.add_scattered(y, outputs, written, operator.channel)

    def _weight(self, block: Block) -> Tensor:
        """Return E in the shape of a weight with fewer outputs or inputs, in the memory format of the layer's weight."""

        def make(_: Tensor) -> Tensor:
            cube = self.sampler.shared_cube(block, self.address)
            weight = cube.reshape(*cube.shape[:2], *block.place.shape[2:]).to(self.dtype)
            return weight.contiguous(memory_format=torch.channels_last if block.inner_last else torch.contiguous_format)

        return self.sampler.shared.weight(self.address, (block.place.name, self.dtype), make)

    def vector_noise(self, block: Block) -> Tensor:
        count, _, factor = self.sampler.shape(block)
        rows, _, _ = self.factors[block.place.name]
        assert rows is not None

        def make(_: Tensor) -> Tensor:
            return self.sampler.shared_cube(block, self.address).to(self.dtype).view(count) * factor

        values = self.sampler.shared.weight(self.address, (block.place.name, self.dtype), make)
        return placed_values(values, rows, block.rows)
