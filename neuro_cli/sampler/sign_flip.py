"""Sign flips: E_i = A_i E B_i, one matrix of noise E for all directions and random signs of outputs and inputs for each.

"An efficient GPU implementation of natural evolution strategies for deep learning" (noise reuse). Every weight is
N(0, 1) and weights are uncorrelated; given E, their sizes are E's for all directions of a generation (or of
``directions_per_noise``). A sum over directions is E times one product of two sign matrices, value by value.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.checks import one_of
from neuro_cli.core.kernels.compiled import block_kernels, sum_kernels
from neuro_cli.core.layout import LARGE, Place
from neuro_cli.core.linear import LinearLayer
from neuro_cli.core.noise import FACTOR_STREAM
from neuro_cli.core.rows import COMPILED, MemberBatch, random_signs, weighted_signs
from neuro_cli.sampler.base import Operator, Perturbation
from neuro_cli.sampler.blocks import Address, Block, BlockSum, Sides
from neuro_cli.sampler.shared_noise import NoiseReusing
from neuro_cli.sampler.structured import StructuredPerturbation, Writer

ROWS = 256  # rows of E in memory at a time, since all of E is as large as the centre; a multiple of a word's signs
MOSTLY = 0.9  # share of linear layers
FEW_ROWS = 64  # rows of a member of linear layers whose weights cost more than a second product of these rows


def _words(count: int) -> int:
    """Return the number of words with ``count`` signs."""
    return -(-count // 32)


def _add_summed(outputs: Tensor | None, inputs: Tensor | None, weights: Tensor, lines: Tensor) -> None:
    """Add the sum of weighted signs, or of their outer products, to ``lines`` by compiled loops."""
    if outputs is not None and inputs is not None:
        sum_kernels.add_sign_sum(outputs.numpy(), inputs.numpy(), weights.numpy(), lines.numpy())
        return
    alone = inputs if outputs is None else outputs
    assert alone is not None
    line = lines[0] if outputs is None else lines[:, 0]
    sum_kernels.add_weighted_signs(alone.numpy(), weights.numpy(), line.numpy())


class SignFlip(NoiseReusing):
    """Noise reuse by random signs: one matrix of noise E, with its rows and columns negated at random for each direction.

    ``sides`` that have signs: both | outputs | inputs. ``directions_per_noise`` >= 1: directions for each E, None: one E a
    generation. ``antithetic``: members in mirrored pairs. Factors: words (D, W), for each block the signs of its outputs, then of
    its inputs. Raises ConfigError.
    """

    def __init__(self, sides: str = "both", directions_per_noise: int | None = None, antithetic: bool = True) -> None:
        super().__init__(directions_per_noise, antithetic)
        self.sides = one_of("sampler.sides", sides, ("both", "outputs", "inputs"))

    @property
    def in_parts(self) -> bool:
        return self.noise.device.type == "cpu" and self.layout.size >= LARGE and self.linear_share >= MOSTLY

    @property
    def few_examples(self) -> int:
        if self.in_parts:
            return sys.maxsize
        # a member of few examples spends more on its weights than on its products
        linear = self.noise.device.type == "cpu" and self.linear_share >= MOSTLY
        return FEW_ROWS if linear else super().few_examples

    def flips(self, block: Block) -> tuple[bool, bool]:
        """Return whether the outputs and whether the inputs of a block have signs. One side always has: members must differ."""
        # the sign of a single input would only repeat the outputs' signs
        inputs = not block.vector and block.inner > 1 and self.sides != "outputs"
        return self.sides != "inputs" or not inputs, inputs

    def factor_columns(self, block: Block) -> int:
        outputs, inputs = self.flips(block)
        return outputs * _words(block.rows) + inputs * _words(block.inner)

    def factors(self, generation: int, directions: Sequence[int]) -> Tensor:
        return self.noise.words(generation, directions, self._columns, FACTOR_STREAM)

    def columns_of(self, block: Block) -> tuple[int, int]:
        """Return the first columns of the words with a block's signs, of outputs and of inputs; -1: it has none."""
        outputs, inputs = self.flips(block)
        return block.first if outputs else -1, block.first + outputs * _words(block.rows) if inputs else -1

    def words_of(self, block: Block, factors: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the words with a block's signs, of outputs (D, W) and of inputs (D, W')."""
        outputs, inputs = (
            None if first < 0 else factors[:, first : first + _words(count)]
            for first, count in zip(self.columns_of(block), (block.rows, block.inner), strict=True)
        )
        return outputs, inputs

    def block_noise(
        self, block: Block, factors: Tensor, address: Address, dtype: torch.dtype, lines: Tensor | None = None
    ) -> Tensor:
        if lines is not None and len(lines) == 1 and self.in_parts:
            low, high = int(lines.min()), int(lines.max()) + 1
            noise = block.cube(self.rows(block, address, low, high)).to(dtype)[lines - low]
        else:
            noise = block.cube(self.shared.flat(address)[block.columns]).to(dtype)
            noise = noise[None] if lines is None else noise[lines]
        outputs, inputs = self.words_of(block, factors)
        if outputs is not None:
            signs = random_signs(outputs, block.rows, dtype)
            noise = noise * (signs if lines is None else signs.gather(1, lines))[:, :, None, None]
        if inputs is not None:
            noise = noise * random_signs(inputs, block.inner, dtype)[:, None, :, None]
        return noise

    def rows(self, block: Block, address: Address, low: int, high: int) -> Tensor:
        """Return E's values in rows [low, high) of a block, in the order of the flat vector."""
        start = block.place.start
        return self.shared.part(address, start + low * block.width, start + high * block.width)

    def perturb_block(
        self, block: Block, factors: Tensor, address: Address, base: np.ndarray, scale: np.ndarray, out: Sides
    ) -> None:
        self.writer(block, factors, address)(0, base, scale, out)

    def signs_of(self, block: Block, factors: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Return the signs of a block's rows (D, rows) and of its inputs (D, inner)."""
        ones = torch.ones(len(factors), dtype=torch.float32)
        rows, inner = (
            np.ones((len(factors), count), np.float32) if words is None else weighted_signs(words, count, ones).numpy()
            for words, count in zip(self.words_of(block, factors), (block.rows, block.inner), strict=True)
        )
        return rows, inner

    def writer(self, block: Block, factors: Tensor, address: Address) -> Writer:
        """Return :meth:`perturb_block` as a function of a direction's position in ``factors``."""
        rows, inner = self.signs_of(block, factors)
        columns = block.line(inner)
        noise = self.shared.flat(address)[block.columns].numpy()
        return lambda place, base, scale, out: block_kernels.perturb_flipped(
            base, scale, noise, rows[place], columns[place], *out
        )

    def partial_zeros(self, target: BlockSum, out: Tensor | None = None) -> Tensor:
        """Return zeros for the sum of w a b^T, with one line or column for a side without signs; of w alone for squares."""
        outputs, inputs = self.flips(target.block)
        if (
            out is not None
            and outputs
            and target.moment == 1
            and (inputs or target.block.inner == 1)
            and target.block.spatial == 1
        ):
            return out.zero_()
        lines = target.high - target.low if outputs and target.moment == 1 else 1
        return torch.zeros(
            lines, target.block.inner if inputs and target.moment == 1 else 1, device=self.noise.device, dtype=torch.float32
        )

    def accumulate(self, lines: Tensor, first: int, target: BlockSum, factors: Tensor, weights: Tensor) -> None:
        if target.moment == 2:  # a square has no sign
            # exact, as the order of torch's sum depends on the processor
            lines += math.fsum(weights.tolist()) if lines.device.type == "cpu" else weights.sum()
            return
        block = target.block
        outputs, inputs = self.words_of(block, factors)
        # ``low`` and ``first`` are multiples of PIECE, so that the rows' signs begin at the first bit of a word
        word = (target.low + first) // 32
        if outputs is not None:
            outputs = outputs[:, word : word + _words(len(lines))]
        weights = weights.float()
        if lines.device.type == "cpu":
            _add_summed(outputs, inputs, weights, lines)
            return
        if outputs is None:
            assert inputs is not None
            lines += weights @ weighted_signs(inputs, target.block.inner, torch.ones_like(weights))
            return
        rows = weighted_signs(outputs, len(lines), weights)
        if inputs is None:
            lines += rows.sum(0)[:, None]
        else:
            lines.addmm_(rows.T, weighted_signs(inputs, target.block.inner, torch.ones_like(weights)))

    def assemble(self, partial: Tensor, target: BlockSum, low: int, high: int) -> Tensor:
        noise, lines = self._parts(partial, target, low, high)
        return noise * lines

    def write(self, partial: Tensor, target: BlockSum, low: int, high: int, out: Tensor) -> None:
        noise, lines = self._parts(partial, target, low, high)
        cube = target.block.cube(out)
        if lines.data_ptr() == out.data_ptr():
            cube.mul_(noise)
        else:
            torch.mul(noise, lines, out=cube)

    def _parts(self, partial: Tensor, target: BlockSum, low: int, high: int) -> tuple[Tensor, Tensor]:
        """Return the noise (rows, inner, spatial) of some rows, squared for moment 2, and its multiplier."""
        noise = target.block.cube(self.rows(target.block, target.address, low, high))
        lines = partial[low - target.low : high - target.low] if len(partial) > 1 else partial
        return noise if target.moment == 1 else noise * noise, lines[:, :, None]

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        return FlippedPerturbation(self, generation, first, rows, dtype)


class FlippedPerturbation(StructuredPerturbation):
    """x (A E B)^T = ((x B) E^T) A: the layer with E between two changes of sign; transposed: x A E B."""

    sampler: SignFlip

    def writer(self, block: Block) -> Writer:
        return self.sampler.writer(block, self.factors, self.address)

    def linear(self, block: Block, shift: Place | None, layer: LinearLayer) -> Tensor:
        if self.sampler.in_parts:
            return self._linear_in_parts(block, shift, layer)
        (written, read), shifted, noise = self.sampler.columns_of(block), -1, None
        if shift is not None:
            shifted, noise = self.sampler.columns_of(self.block(shift))[0], self._matrix(shift, torch.float32)
        return layer.flipped(self._matrix(block.place, self.dtype), noise, self.factors, (read, written, shifted))

    def _linear_in_parts(self, block: Block, shift: Place | None, layer: LinearLayer) -> Tensor:
        """Return the outputs of :meth:`linear`, ROWS of them after others, so that E's rows are drawn near their use."""
        sampler, address, (written, read) = self.sampler, self.address, self.sampler.columns_of(block)
        bias = None if shift is None else self.block(shift)
        result = layer.x.new_empty(layer.rows.count, *layer.x.shape[1:-1], block.rows)
        for low in range(0, block.rows, ROWS):
            high, word = min(low + ROWS, block.rows), low // 32
            noise = sampler.rows(block, address, low, high).view(high - low, -1)
            shifted = -1 if bias is None else sampler.columns_of(bias)[0] + word
            moved = None if bias is None else sampler.rows(bias, address, low, high)
            part = replace(layer, weight=layer.weight[low:high], bias=None if layer.bias is None else layer.bias[low:high])
            columns = read, written if written < 0 else written + word, shifted
            result[..., low:high] = part.flipped(noise.to(self.dtype), moved, self.factors, columns)
        return result

    def apply(self, place: Place, x: Tensor, y: Tensor, operator: Operator) -> Tensor:
        block = self.block(place)
        outputs, inputs = self.sampler.words_of(block, self.factors)
        channel = operator.channel
        if operator.transposed:
            flipped = x if outputs is None else self.rows.flip(x, outputs, channel)
            result = operator(flipped, self._shared(place))
            return self.rows.add(y, result if inputs is None else self._flipped(result, inputs, block, channel))
        flipped = x if inputs is None else self._flipped(x, inputs, block, channel)
        if operator.geometry is None and self.sampler.in_parts:
            result = y.new_empty(y.shape)
            for low in range(0, block.rows, ROWS):
                noise = self.sampler.rows(block, self.address, low, min(low + ROWS, block.rows)).view(-1, block.width)
                result[..., low : low + ROWS] = flipped @ noise.to(self.dtype).T
        else:
            result = operator(flipped, self._shared(place))
        return self.rows.add(y, result) if outputs is None else self.rows.add_flipped(y, result, outputs, channel)

    def _shared(self, place: Place) -> Tensor:
        if self.sampler.in_parts:
            block = self.block(place)
            return place.view_of(self.sampler.rows(block, self.address, 0, block.rows)).to(self.dtype)
        make = lambda flat: place.view(flat).to(self.dtype)  # noqa: E731
        return self.sampler.shared.weight(self.address, (place.name, self.dtype), make)

    def _matrix(self, place: Place, dtype: torch.dtype) -> Tensor:
        """Return E of a linear layer's weight (rows, inner), or of its bias (rows,)."""
        make = lambda flat: place.view(flat).flatten(min(1, len(place.shape) - 1)).to(dtype).contiguous()  # noqa: E731
        return self.sampler.shared.weight(self.address, (place.name, "matrix", dtype), make)

    def _flipped(self, x: Tensor, inputs: Tensor, block: Block, channel: int) -> Tensor:
        groups = block.place.groups
        if groups == 1:
            return self.rows.flip(x, inputs, channel)
        # every group of channels has the same signs
        return self.rows.by_direction(x, random_signs(inputs, block.inner, x.dtype).repeat(1, groups), channel, torch.mul)

    def vector_noise(self, block: Block) -> Tensor:
        outputs, _ = self.sampler.words_of(block, self.factors)
        assert outputs is not None
        if self.dtype in COMPILED:
            signs = weighted_signs(outputs, block.rows, torch.ones(len(outputs), dtype=self.dtype, device=outputs.device))
        else:
            signs = random_signs(outputs, block.rows, self.dtype)
        return signs.mul_(self._shared(block.place).view(-1))
