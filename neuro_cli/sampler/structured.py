"""Base of the samplers with structured noise: a member is a few random factors, not M numbers.

The factors of all blocks of a direction lie one after the other in its columns of FACTOR_STREAM, so that one draw serves a
whole network. Sums over directions: :mod:`neuro_cli.sampler.block_sums`.

Legend: D directions, M columns.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.kernels.compiled import blas_kernels, convolution_kernels
from neuro_cli.core.layout import Place
from neuro_cli.core.linear import LinearLayer
from neuro_cli.core.rows import COMPILED, Geometry, MemberBatch, out_sizes
from neuro_cli.sampler.base import Operator, Perturbation
from neuro_cli.sampler.block_sums import BlockSums
from neuro_cli.sampler.blocks import Address, Block, Sides

# a convolution on a CPU is done with the members' own weights where each of them serves so many pixels: then noise is written out
# for less than a second product costs. With few columns all members are one product; others are called one by one, for which a
# member must have many products
MANY_PIXELS, FEW_COLUMNS, MANY_PRODUCTS = 256, 64, 2**23
CACHED = 2**20  # values that pixels read, at once
LINES = 2**15  # values that pixels read, and of their outcomes, at once where compiled loops call a BLAS

Writer = Callable[[int, np.ndarray, np.ndarray, Sides], None]  # place of a direction, base, scale, out


class Structured(BlockSums):
    """Base of the structured samplers: two more hooks apply the noise of one direction to a block."""

    reuses_noise = True

    @abstractmethod
    def block_noise(
        self, block: Block, factors: Any, address: Address, dtype: torch.dtype, lines: Tensor | None = None
    ) -> Tensor:
        """The noise (D, rows, inner, spatial) of the directions of ``factors``, in plain torch operations.

        ``lines`` (D, k): rows that are asked for, None for all.
        """

    @abstractmethod
    def perturb_block(
        self, block: Block, factors: Any, address: Address, base: np.ndarray, scale: np.ndarray, out: Sides
    ) -> None:
        """Write ``base`` plus and minus ``scale`` times the block's noise on a CPU, by compiled loops; scale as long or (1,)."""

    def rounded_factors(self, generation: int, directions: range, dtype: torch.dtype) -> Any:
        """The factors as a forward pass in ``dtype`` needs them."""
        return self.factors(generation, directions)

    def address_of(self, generation: int, direction: int) -> Address:
        """Address of the noise that a direction shares with others."""
        return Address(generation, self.period_of(direction))

    def explicit(self, generation: int, direction: int, dtype: torch.dtype = torch.float32) -> Tensor:
        factors, address = self.factors(generation, [direction]), self.address_of(generation, direction)
        return torch.cat([b.flat(self.block_noise(b, factors, address, dtype)[0]) for b in self.blocks.values()])

    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        if base.device.type != "cpu":
            step = scale * self.explicit(generation, direction)
            for side, operation in ((plus, torch.add), (minus, torch.sub)):
                if side is not None:
                    operation(base, step, out=side)
            return
        factors, address = self.factors(generation, [direction]), self.address_of(generation, direction)
        empty = np.empty(0, np.float32)  # for compiled loops, which take no None
        for block in self.blocks.values():
            part = block.columns
            spread = scale.numpy() if scale.numel() == 1 else scale[part].numpy()
            a, b = (empty if side is None else side[part].numpy() for side in (plus, minus))
            self.perturb_block(block, factors, address, base[part].numpy(), spread, Sides(a, b))


class StructuredPerturbation(Perturbation):
    """The factors of directions [first, first + D) and the sampler they belong to."""

    def __init__(self, sampler: Any, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> None:
        self.sampler, self.rows, self.dtype = sampler, rows, dtype
        self.address = sampler.address_of(generation, first)
        assert self.address == sampler.address_of(generation, first + rows.directions - 1)
        self.factors = sampler.rounded_factors(generation, range(first, first + rows.directions), dtype)

    def block(self, place: Place) -> Block:
        found: Block = self.sampler.blocks[place.name]
        return found

    def full_product(self, block: Block) -> bool:
        """Tell whether the noise of a layer costs a product as large as the centre's."""
        return True

    @abstractmethod
    def writer(self, block: Block) -> Writer:
        """Function that writes the weights of a direction, by its place among these, as :meth:`Structured.perturb_block` does."""

    def layer(
        self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None, operator: Operator
    ) -> Tensor | None:
        geometry, rows, block = operator.geometry, self.rows, self.block(place)
        if x.device.type != "cpu" or operator.transposed:
            return None
        if geometry is None:
            linear = LinearLayer(rows, x, weight if weight.dim() == 2 else weight.flatten(1), bias)
            served = len(x) in (rows.count, rows.count // len(rows.scales)) and linear.served
            return self.linear(block, None if bias is None else shift, linear) if served else None
        if geometry.groups > 1 or x.dim() != 4 or x.dtype not in COMPILED:  # own weights in bfloat16 would round the noise away
            return None
        sizes = out_sizes(x.shape[2:], place.shape[2:], geometry)
        pixels = sizes[0] * sizes[1] * rows.examples
        few = block.width <= FEW_COLUMNS
        many = x.dtype == torch.float32 and pixels * block.rows * block.width >= MANY_PRODUCTS and self.full_product(block)
        if pixels < MANY_PIXELS or not (few or many):
            return None
        made = x.new_empty(rows.count, *sizes, block.rows)
        shifts = self.vectors(shift) if bias is not None and shift is not None else None
        count = rows.directions * rows.examples
        for side, scale in enumerate(rows.scales):
            mine = x if len(x) == count else x[side * count : (side + 1) * count]
            shifted = bias if bias is None or shifts is None else torch.add(bias, shifts, alpha=scale)
            out = made[side * count : (side + 1) * count]
            if few:
                self._products(block, mine, weight, shifted, scale, geometry, out)
            else:
                self._convolved(block, mine, weight, shifted, scale, operator, out.permute(0, 3, 1, 2))
        return made.permute(0, 3, 1, 2)

    @abstractmethod
    def linear(self, block: Block, shift: Place | None, layer: LinearLayer) -> Tensor:
        """Outcomes of a linear layer with the noise of its weight and of its bias, by compiled loops."""

    def own_weights(self, block: Block, weight: Tensor, scale: float) -> Tensor:
        """Weights (D, rows, inputs and taps) of the directions, on a side of ``scale``; the centre's (rows, inputs and taps)."""
        return torch.add(weight, self._cubes(block).flatten(-2), alpha=scale)

    def _products(
        self, block: Block, x: Tensor, weight: Tensor, bias: Tensor | None, scale: float, geometry: Geometry, out: Tensor
    ) -> None:
        """Convolutions of images (D e, ..) by products of what each pixel reads, into ``out`` (D e, H', W', rows)."""
        weights = self.own_weights(block, weight.flatten(1), scale)
        if x.dtype == torch.float32 and blas_kernels.SERVES:
            own_convolutions(x, weights, bias, self.rows.examples, block.place.shape[2:], geometry, out)
            return
        weights = self.rows.one_side().repeated(weights).transpose(1, 2)
        length = max(1, CACHED // (block.width * out[0, ..., 0].numel()))
        for low in range(0, len(x), length):
            part = slice(low, low + length)
            patches = _patches(x[part], block.place.shape[2:], out.shape[1:3], geometry)
            torch.bmm(patches.transpose(1, 2), weights[part], out=out[part].flatten(1, 2))
        if bias is not None:
            out += self.rows.one_side().repeated(bias.expand(self.rows.directions, -1))[:, None, None]

    def _convolved(
        self, block: Block, x: Tensor, weight: Tensor, bias: Tensor | None, scale: float, operator: Operator, out: Tensor
    ) -> None:
        """Convolutions of each direction's images (D e, ..), into ``out`` (D e, rows, ..)."""
        base = (weight.permute(0, 2, 3, 1) if block.inner_last else weight).reshape(-1)
        own, spread, write = torch.empty_like(base), np.array([scale], np.float32), self.writer(block)
        own_view, sides, centre = block.place.view_of(own), Sides(own.numpy(), np.empty(0, np.float32)), base.numpy()
        examples = self.rows.examples
        for direction, images in enumerate(x.split(examples)):
            write(direction, centre, spread, sides)
            made = operator(images, own_view)
            if bias is not None:
                made += (bias if bias.dim() == 1 else bias[direction])[:, None, None]
            out[direction * examples : (direction + 1) * examples] = made

    @abstractmethod
    def vector_noise(self, block: Block) -> Tensor:
        """The noise of a vector block itself, (D, rows)."""

    def vectors(self, place: Place) -> Tensor:
        block = self.block(place)
        return self.vector_noise(block) if block.vector else block.flat(self._cubes(block)).flatten(1)

    def values(self, place: Place) -> Tensor:
        return self._cubes(self.block(place)).reshape(-1, *place.shape)

    def lines(self, place: Place, index: Tensor) -> Tensor:
        return self._cubes(self.block(place), index).reshape(*index.shape, *place.shape[1:])

    def _cubes(self, block: Block, lines: Tensor | None = None) -> Tensor:
        made: Tensor = self.sampler.block_noise(block, self.factors, self.address, self.dtype, lines)
        return made


def own_convolutions(
    x: Tensor, weights: Tensor, bias: Tensor | None, examples: int, kernel: Sequence[int], geometry: Geometry, out: Tensor
) -> None:
    """Write convolutions of images (D e, ..) with their directions' weights to ``out`` (D e, H', W', rows).

    Weights are (D, rows, inputs and taps), ``bias``: (rows,), or (D, rows).
    """
    shifts = np.empty((1, 0), np.float32) if bias is None else np.atleast_2d(bias.numpy())
    places = out.shape[2] * (weights.shape[1] + weights.shape[2])
    options = geometry.stride, geometry.padding, geometry.dilation, tuple(kernel)
    lines = max(1, min(out.shape[1], LINES // places))
    weights = weights.contiguous()  # what other operations gave keeps their order of memory
    convolution_kernels.own_convolutions(x.numpy(), weights.numpy(), shifts, examples, *options, lines, out.numpy())


def _patches(x: Tensor, kernel: Sequence[int], sizes: Sequence[int], geometry: Geometry) -> Tensor:
    """Patches of images (n, C, H, W), one for each pixel of an outcome of height and width ``sizes``: (n, C taps, pixels).

    Those of F.unfold, by a copy of whole lines: with the loops of F.unfold a pass of 3 to 64 channels takes 1.7 times as long
    (neuro bench layer).
    """
    (down, right), gaps, steps = geometry.padding, geometry.dilation, geometry.stride
    padded = F.pad(x.contiguous(), (right, right, down, down))
    image, channel, line, pixel = padded.stride()
    taps = padded.as_strided(
        (*x.shape[:2], *kernel, *sizes), (image, channel, gaps[0] * line, gaps[1] * pixel, steps[0] * line, steps[1] * pixel)
    )
    return taps.reshape(len(x), -1, sizes[0] * sizes[1])
