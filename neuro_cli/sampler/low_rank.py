"""Low rank: E_i = 1/sqrt(R) sum over r of a_r b_r^T with normal vectors a over the outputs and b over the inputs.

EGGROLL (Sarkar et al., "Evolution strategies at the hyperscale", 2025); a convolution counts as the matrix
(outputs, inputs x taps). Every weight has exactly mean 0 and variance 1, and two weights are uncorrelated.
A weight is a sum of R products of two normals, not a normal: its kurtosis is 3 + 6 / R, and it tends to N(0, 1) with R.
Vectors (biases, scales of norms) are N(0, I).
"""

import copy
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_cli.core.checks import integer
from neuro_cli.core.kernels import gpu
from neuro_cli.core.kernels.compiled import product_kernels, sum_kernels
from neuro_cli.core.layout import Place
from neuro_cli.core.linear import LinearLayer
from neuro_cli.core.noise import FACTOR_STREAM
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import Operator, Perturbation
from neuro_cli.sampler.blocks import Address, Block, BlockSum
from neuro_cli.sampler.structured import Structured, StructuredPerturbation


class LowRank(Structured):
    """Noise of ``rank`` >= 1 outer products of two normal vectors for each direction.

    ``antithetic``: members in mirrored pairs. Factors: normals (D, W), for each block a of all ranks and then b, in the order of
    a flat row. Raises ConfigError.
    """

    sums_of_factors = True

    def __init__(self, rank: int = 1, antithetic: bool = True) -> None:
        super().__init__(antithetic)
        self.rank = integer("sampler.rank", rank, 1)

    @property
    def few_examples(self) -> int:
        few = self.rank <= FEW_RANKS and self.linear_share >= MOSTLY
        # a product doubles only with noise on a matrix
        return sys.maxsize if few or all(block.vector for block in self.blocks.values()) else super().few_examples

    def factor_columns(self, block: Block) -> int:
        return block.rows if block.vector else self.rank * (block.rows + block.width)

    def factors(self, generation: int, directions: Sequence[int]) -> Tensor:
        return self.noise.draw(generation, directions, 0, self._columns, FACTOR_STREAM)

    def rounded_factors(self, generation: int, directions: range, dtype: torch.dtype) -> Tensor:
        if self.noise.device.type == "cpu" or dtype == torch.float64:
            return self.factors(generation, directions)
        return self.noise.draw(generation, directions, 0, self._columns, FACTOR_STREAM, dtype)

    def whole_sum(self, target: BlockSum, factors: Tensor, weights: Tensor, out: Tensor) -> bool:
        if target.block.vector or target.moment == 2:
            return False
        rows, columns = self.vectors_of(target.block, factors, torch.float32)
        weighted = rows[:, :, target.low : target.high] * weights.float()[:, None, None]
        # the GPU library's own product splits small sums over many directions among programs
        product = gpu.product if out.numel() >= LARGE_SUM else torch.mm
        product(weighted.flatten(0, 1).T, columns.flatten(0, 1), out=out.view(-1, target.block.width))
        return True

    def vectors_of(self, block: Block, factors: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the low-rank factors a / sqrt(R) (D, R, rows) and b (D, R, width) of a block."""
        part = factors[:, block.first : block.first + self.factor_columns(block)].to(dtype)
        middle = self.rank * block.rows
        rows, columns = part[:, :middle], part[:, middle:]
        rows = rows.unflatten(1, (self.rank, -1))
        return rows / math.sqrt(self.rank) if self.rank > 1 else rows, columns.unflatten(1, (self.rank, -1))

    def block_noise(
        self, block: Block, factors: Tensor, address: Address, dtype: torch.dtype, lines: Tensor | None = None
    ) -> Tensor:
        if block.vector:
            values = factors[:, block.first : block.first + block.rows].to(dtype)
            return (values if lines is None else values.gather(1, lines))[:, :, None, None]
        rows, columns = self.vectors_of(block, factors, dtype)
        if lines is not None:
            rows = rows.gather(2, lines[:, None].expand(-1, self.rank, -1))
        # a plain product: a batch of one may round otherwise, and would change the bits of saved runs
        product = (rows[0].T @ columns[0])[None] if len(rows) == 1 else rows.transpose(1, 2) @ columns
        return block.cube(product.flatten(1))

    def partial_zeros(self, target: BlockSum, out: Tensor | None = None) -> Tensor:
        """Return zeros for the sum itself of low-rank noise: none is shared."""
        return (
            out.zero_()
            if out is not None
            else torch.zeros(target.high - target.low, target.block.width, device=self.noise.device, dtype=torch.float32)
        )

    def accumulate(self, lines: Tensor, first: int, target: BlockSum, factors: Tensor, weights: Tensor) -> None:
        block, weights = target.block, weights.float()
        low = target.low + first
        if block.vector:
            values = factors[:, block.first + low : block.first + low + len(lines)]
            values = values if target.moment == 1 else values * values
            if values.device.type == "cpu":
                sum_kernels.add_weighted(values.numpy(), weights.numpy(), lines[:, 0].numpy())
                return
            lines += (weights @ values)[:, None]
            return
        if target.moment == 1 and lines.device.type == "cpu":
            written, read = block.first + low, block.first + self.rank * block.rows
            rows, columns = (factors.numpy(), written, block.rows), (factors.numpy(), read, block.width)
            product_kernels.add_products(*rows, *columns, self.rank, (weights / math.sqrt(self.rank)).numpy(), lines.numpy())
            return
        by_row, by_column = self.vectors_of(block, factors, torch.float32)
        by_row = by_row[:, :, low : low + len(lines)]
        if target.moment == 2:  # the square of a sum over R products is a sum over pairs of them
            by_row = (by_row[:, :, None] * by_row[:, None]).flatten(1, 2)
            by_column = (by_column[:, :, None] * by_column[:, None]).flatten(1, 2)
        if lines.device.type == "cpu":
            rows, columns = (by_row.flatten(1).numpy(), 0, len(lines)), (by_column.flatten(1).numpy(), 0, block.width)
            product_kernels.add_products(*rows, *columns, by_row.shape[1], weights.numpy(), lines.numpy())
            return
        weighted = by_row * weights[:, None, None]
        lines.addmm_(weighted.flatten(0, 1).T, by_column.flatten(0, 1))

    def assemble(self, partial: Tensor, target: BlockSum, low: int, high: int) -> Tensor:
        return target.block.cube(partial[low - target.low : high - target.low].flatten())

    def write(self, partial: Tensor, target: BlockSum, low: int, high: int, out: Tensor) -> None:
        lines = partial[low - target.low : high - target.low]
        if lines.data_ptr() != out.data_ptr():
            out.copy_(lines.flatten())

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        return LowRankPerturbation(self, generation, first, rows, dtype)


LARGE_SUM = 2**18
FEW_RANKS, MOSTLY = 4, 0.9  # ranks, and share of linear layers, that cost a pass little
# a convolution with the members' own weights computes its outer products again for each block of outputs
SMALL_RANK, SMALL_CHANNELS, MANY_POINTS = 4, 64, 32


class LowRankPerturbation(StructuredPerturbation):
    """x (a b^T)^T = (x b) a^T: each row is multiplied by its own b, then by a over the outputs; transposed: first by a."""

    sampler: LowRank
    half = True

    def drawn(self) -> tuple[Tensor, Callable[[Tensor], Perturbation]]:
        return self.factors, self._with

    def _with(self, factors: Tensor) -> Perturbation:
        result = copy.copy(self)
        result.factors = factors
        return result

    def layer(
        self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None, operator: Operator
    ) -> Tensor | None:
        kernels = gpu.layer_kernels(x)
        if kernels is None:
            return super().layer(place, shift, x, weight, bias, operator)
        if operator.transposed:
            return None
        factors = self.sampler.vectors_of(self.block(place), self.factors, self.dtype)
        vectors = None if shift is None else self.vectors(shift)
        if operator.geometry is None:
            return self._linear(kernels, x, weight, bias, vectors, factors) if len(x) == self.rows.count else None
        points = x[0, 0].numel() * self.rows.examples
        small = max(weight.shape[:2]) <= SMALL_CHANNELS and self.sampler.rank <= SMALL_RANK and points >= MANY_POINTS
        if not small or operator.geometry.groups > 1 or not kernels.one_stride(weight):
            return None
        rows, block = (self.rows.directions, self.rows.examples), self.block(place)
        order = (1, block.inner) if block.inner_last else (block.spatial, 1)
        result: Tensor = kernels.layer(x, weight, factors, bias, vectors, self.rows.scales, rows, operator.geometry, order)
        return result

    def _linear(
        self, kernels: Any, x: Tensor, weight: Tensor, bias: Tensor | None, vectors: Tensor | None, factors: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return a linear layer's outputs: the noise's share, to which the centre's product is added as it is written."""
        rows, columns = factors
        maps = self.rows.projected(x, columns).view(len(x), -1, rows.shape[1])
        result = kernels.spread(maps, rows, bias, vectors, self.rows.scales, (self.rows.directions, self.rows.examples))
        result.flatten(0, 1).addmm_(x.reshape(-1, x.shape[-1]), weight.flatten(1).T)
        outputs: Tensor = result.view(*x.shape[:-1], -1)
        return outputs

    def linear(self, block: Block, shift: Place | None, layer: LinearLayer) -> Tensor:
        rank, shifts = self.sampler.rank, None if shift is None else self.vectors(shift)
        return layer.low_rank(self.factors, shifts, (block.first + rank * block.rows, block.first), rank, 1 / math.sqrt(rank))

    def apply(self, place: Place, x: Tensor, y: Tensor, operator: Operator) -> Tensor:
        block = self.block(place)
        rows, columns = self.sampler.vectors_of(block, self.factors, self.dtype)
        if operator.geometry is None:
            by, to = (rows, columns) if operator.transposed else (columns, rows)
            return self.rows.add_outer(y, self.rows.projected(x, by), to, operator.channel)
        # the kernels convolve over two dimensions: the second one has length 1 here
        kernel = (1, *place.shape[2:]) if len(place.shape) == 3 else place.shape[2:]
        filters = block.cube(columns)[..., 0, :, :].reshape(*columns.shape[:2], -1, *kernel)
        if operator.transposed:
            return self._spread(x, y, operator, rows, filters, operator.geometry.groups)
        maps = self.rows.filtered(x, filters, operator.geometry)
        return self.rows.add_outer(y, maps, rows, operator.channel, operator.geometry.groups)

    def add_lines(self, place: Place, index: Tensor, y: Tensor) -> Tensor:
        block = self.block(place)
        if len(place.shape) != 2:
            return super().add_lines(place, index, y)
        rows, columns = self.sampler.vectors_of(block, self.factors, self.dtype)
        maps = self.rows.repeated(rows).gather(2, index[:, None].expand(-1, self.sampler.rank, -1))  # (n, R, k)
        return self.rows.add_outer(y, maps.transpose(1, 2).contiguous(), columns, -1)

    def _spread(self, x: Tensor, y: Tensor, operator: Operator, rows: Tensor, filters: Tensor, groups: int) -> Tensor:
        """Sum each group's channels by a, and spread them by b: a transposed convolution. Rows (D, R, C), filters (D, R, ..)."""
        count, by_row = self.rows.count, self.rows.repeated(rows).unflatten(2, (groups, -1)).transpose(1, 2)
        maps = by_row @ x.reshape(count, groups, by_row.shape[-1], -1)
        # each row of the batch and each of its groups is one group, with its own filters
        bank = self.rows.repeated(filters).repeat_interleave(groups, 0).flatten(0, 1)
        result = operator(maps.reshape(1, -1, *x.shape[2:]), bank, count * groups)
        return self.rows.add(y, result.reshape(y.shape))

    def vector_noise(self, block: Block) -> Tensor:
        return self.factors[:, block.first : block.first + block.rows].to(self.dtype)
