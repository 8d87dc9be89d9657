"""Base of the samplers with structured noise: a member is a few random factors, not M numbers.

The factors of all blocks are consecutive columns of a direction in FACTOR_STREAM, so that one draw serves the network. Sums over
directions: :mod:`neuro_cli.sampler.block_sums`.

Legend: D directions, M columns.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.layout import Place
from neuro_cli.core.linear import LinearLayer
from neuro_cli.core.rows import MemberBatch, out_sizes
from neuro_cli.sampler.base import Operator, Perturbation
from neuro_cli.sampler.block_sums import BlockSums
from neuro_cli.sampler.blocks import Address, Block, Sides

Writer = Callable[[int, np.ndarray, np.ndarray, Sides], None]  # place of a direction, base, scale, out


class OwnWeights(NamedTuple):
    """Choice of the members' own weights in a convolution on a CPU: to write noise costs less there than a second product.

    ``pixels``: least number that each weight serves; ``products``: least number of multiplications of a member in a call.
    """

    pixels: int = 256
    products: int = 2**23


class Structured(BlockSums):
    """Base of the structured samplers, with two more hooks that apply the noise of one direction to a block."""

    reuses_noise = True
    own_weights = OwnWeights()

    @abstractmethod
    def block_noise(
        self, block: Block, factors: Any, address: Address, dtype: torch.dtype, lines: Tensor | None = None
    ) -> Tensor:
        """Return the noise (D, rows, inner, spatial) of the directions of ``factors``, in plain torch operations.

        ``lines`` (D, k): rows to return, None for all.
        """

    def perturb_block(
        self, block: Block, factors: Any, address: Address, base: np.ndarray, scale: np.ndarray, out: Sides
    ) -> None:
        """Write ``base`` plus and minus ``scale``, (1,) or as long, times the block's noise on a CPU."""
        noise = self.block_noise(block, factors, address, torch.float32)[0]
        step = block.flat(noise).flatten().numpy() * scale
        if out.plus.size:
            np.add(base, step, out=out.plus)
        if out.minus.size:
            np.subtract(base, step, out=out.minus)

    def rounded_factors(self, generation: int, directions: range, dtype: torch.dtype) -> Any:
        """Return the factors in the form that a forward pass in ``dtype`` needs."""
        return self.factors(generation, directions)

    def address_of(self, generation: int, direction: int) -> Address:
        """Return the address of the noise that a direction shares with others."""
        return Address(generation, self.period_of(direction))

    def explicit(self, generation: int, direction: int, dtype: torch.dtype = torch.float32) -> Tensor:
        factors, address = self.factors(generation, [direction]), self.address_of(generation, direction)
        return torch.cat([b.flat(self.block_noise(b, factors, address, dtype)[0]) for b in self.blocks.values()])

    def explicit_part(
        self, generation: int, direction: int, name: str, first: int, last: int, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        factors, address, block = self.factors(generation, [direction]), self.address_of(generation, direction), self.blocks[name]
        lines = torch.arange(first // block.width, last // block.width, device=self.noise.device)[None]
        return block.flat(self.block_noise(block, factors, address, dtype, lines)[0]).clone()

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
        empty = np.empty(0, np.float32)  # compiled loops take no None
        for block in self.blocks.values():
            part = block.columns
            spread = scale.numpy() if scale.numel() == 1 else scale[part].numpy()
            a, b = (empty if side is None else side[part].numpy() for side in (plus, minus))
            self.perturb_block(block, factors, address, base[part].numpy(), spread, Sides(a, b))


class StructuredPerturbation(Perturbation):
    """Noise of directions [first, first + D) as the factors of their sampler. ``half``: :meth:`linear` takes bfloat16 too."""

    half, loops = False, True

    def __init__(self, sampler: Any, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> None:
        self.sampler, self.rows, self.dtype = sampler, rows, dtype
        self.address = sampler.address_of(generation, first)
        assert self.address == sampler.address_of(generation, first + rows.directions - 1)
        self.factors = sampler.rounded_factors(generation, range(first, first + rows.directions), dtype)

    def block(self, place: Place) -> Block:
        block: Block = self.sampler.blocks[place.name]
        return block

    def writer(self, block: Block) -> Writer | None:
        """Return :meth:`Structured.perturb_block` as a function of a direction's position among these.

        None where the noise of a layer costs less than a product as large as the centre's.
        """
        return None

    def layer(
        self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None, operator: Operator
    ) -> Tensor | None:
        geometry, rows, block = operator.geometry, self.rows, self.block(place)
        if x.device.type != "cpu" or operator.transposed:
            return None
        if geometry is None:
            linear = LinearLayer(rows, x, weight if weight.dim() == 2 else weight.flatten(1), bias)
            fits = len(x) in (rows.count, rows.count // len(rows.scales))
            served = linear.served or (self.half and linear.served_half)
            return self.linear(block, None if bias is None else shift, linear) if fits and served else None
        # members' weights in bfloat16 would round small noise away
        if geometry.groups > 1 or len(place.shape) != 4 or x.dtype != torch.float32:
            return None
        sizes, least = out_sizes(x.shape[2:], place.shape[2:], geometry), self.sampler.own_weights
        pixels = sizes[0] * sizes[1] * rows.examples
        few = pixels < least.pixels or pixels * block.rows * block.width < least.products
        write = None if few else self.writer(block)
        if write is None:
            return None
        result = x.new_empty(rows.count, *sizes, block.rows)
        shifts = self.vectors(shift) if bias is not None and shift is not None else None
        count = rows.directions * rows.examples
        for side, scale in enumerate(rows.scales):
            mine = x if len(x) == count else x[side * count : (side + 1) * count]
            shifted = bias if bias is None or shifts is None else torch.add(bias, shifts, alpha=scale)
            out = result[side * count : (side + 1) * count].permute(0, 3, 1, 2)
            self._convolved(block, write, mine, weight, shifted, scale, operator, out)
        return result.permute(0, 3, 1, 2)

    def linear(self, block: Block, shift: Place | None, layer: LinearLayer) -> Tensor | None:
        """Return the outputs of a linear layer with the noise of its weight and bias, by compiled loops, where it has such."""
        return None

    def _convolved(
        self, block: Block, write: Writer, x: Tensor, weight: Tensor, bias: Tensor | None, scale: float, operator: Operator,
        out: Tensor,
    ) -> None:  # fmt: skip
        """Write convolutions of each direction's images (D e, ..) to ``out`` (D e, rows, ..)."""
        base = (weight.permute(0, 2, 3, 1) if block.inner_last else weight).reshape(-1)
        own, spread = torch.empty_like(base), np.array([scale], np.float32)
        own_view, sides, centre = block.place.view_of(own), Sides(own.numpy(), np.empty(0, np.float32)), base.numpy()
        examples = self.rows.examples
        for direction, images in enumerate(x.split(examples)):
            write(direction, centre, spread, sides)
            result = operator(images, own_view)
            if bias is not None:
                result += (bias if bias.dim() == 1 else bias[direction])[:, None, None]
            out[direction * examples : (direction + 1) * examples] = result

    @abstractmethod
    def vector_noise(self, block: Block) -> Tensor:
        """Return the structured noise (D, rows) of a vector block."""

    def vectors(self, place: Place) -> Tensor:
        block = self.block(place)
        return self.vector_noise(block) if block.vector else block.flat(self._cubes(block)).flatten(1)

    def values(self, place: Place) -> Tensor:
        return self._cubes(self.block(place)).reshape(-1, *place.shape)

    def lines(self, place: Place, index: Tensor) -> Tensor:
        return self._cubes(self.block(place), index).reshape(*index.shape, *place.shape[1:])

    def _cubes(self, block: Block, lines: Tensor | None = None) -> Tensor:
        result: Tensor = self.sampler.block_noise(block, self.factors, self.address, self.dtype, lines)
        return result
