"""Sign flips: E_i = A_i E B_i, one matrix of noise E for all directions and random signs of outputs and inputs for each.

"An efficient GPU implementation of natural evolution strategies for deep learning" (noise reuse). Every weight is
N(0, 1) and weights are uncorrelated; given E, their sizes are those of E for all directions of a generation (or of a
run of ``directions_per_noise``). A sum over directions is E times, number by number, one product of two sign matrices.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core import block_kernels
from neuro_cli.core.checks import one_of
from neuro_cli.core.layout import Place
from neuro_cli.core.noise import FACTOR_STREAM
from neuro_cli.core.rows import MemberBatch, random_signs, weighted_signs
from neuro_cli.sampler.base import Operator, Perturbation
from neuro_cli.sampler.structured import Block, NoiseReusing, Span, StructuredPerturbation


def _words(count: int) -> int:
    """Words that hold ``count`` signs."""
    return -(-count // 32)


class SignFlip(NoiseReusing):
    """``sides``: both | outputs | inputs; ``directions_per_noise``: None for one E a generation.

    Factors: words (D, W), for each block the signs of its outputs and then of its inputs.
    """

    def __init__(self, sides: str = "both", directions_per_noise: int | None = None, antithetic: bool = True) -> None:
        super().__init__(directions_per_noise, antithetic)
        self.sides = one_of("sampler.sides", sides, ("both", "outputs", "inputs"))

    def flips(self, block: Block) -> tuple[bool, bool]:
        """Whether the outputs and the inputs of a block have signs. Something always has: members must differ."""
        # a lone input's sign would only repeat those of the outputs
        inputs = not block.vector and block.inner > 1 and self.sides != "outputs"
        return self.sides != "inputs" or not inputs, inputs

    def factor_columns(self, block: Block) -> int:
        outputs, inputs = self.flips(block)
        return outputs * _words(block.rows) + inputs * _words(block.inner)

    def factors(self, generation: int, directions: Sequence[int]) -> Tensor:
        return self.noise.words(generation, directions, self._columns, FACTOR_STREAM)

    def words_of(self, block: Block, factors: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The words of a block's signs: of outputs (D, W), of inputs (D, W')."""
        outputs, inputs = self.flips(block)
        middle = block.first + outputs * _words(block.rows)
        last = middle + inputs * _words(block.inner)
        return (factors[:, block.first : middle] if outputs else None), (factors[:, middle:last] if inputs else None)

    def block_noise(self, block: Block, factors: Tensor, generation: int, direction: int, dtype: torch.dtype) -> Tensor:
        noise = block.cube(self._piece(block, generation, direction)).to(dtype)
        outputs, inputs = self.words_of(block, factors)
        if outputs is not None:
            noise = noise * random_signs(outputs, block.rows, dtype)[0, :, None, None]
        if inputs is not None:
            noise = noise * random_signs(inputs, block.inner, dtype)[0, :, None]
        return noise

    def _piece(self, block: Block, generation: int, direction: int) -> Tensor:
        return self.shared.flat(generation, self.run_of(direction))[block.place.start : block.place.stop]

    def perturb_block(
        self, block: Block, factors: Tensor, generation: int, direction: int, base: np.ndarray, scale: np.ndarray,
        plus: np.ndarray, minus: np.ndarray,
    ) -> None:  # fmt: skip
        outputs, inputs = self.words_of(block, factors)
        one = torch.ones(1)
        rows = np.ones(block.rows, np.float32) if outputs is None else weighted_signs(outputs, block.rows, one)[0].numpy()
        inner = np.ones(block.inner, np.float32) if inputs is None else weighted_signs(inputs, block.inner, one)[0].numpy()
        noise = self._piece(block, generation, direction).numpy()
        block_kernels.perturb_flipped(base, scale, noise, rows, block.line(inner), plus, minus)

    def gathering(self, block: Block, moment: int, low: int, high: int) -> Tensor:
        """The sum of w a b^T, one line or column where a side has no signs; of squares the sum of w: signs do not matter."""
        outputs, inputs = self.flips(block)
        lines = high - low if outputs and moment == 1 else 1
        return torch.zeros(lines, block.inner if inputs and moment == 1 else 1, device=self.noise.device)

    def gather(
        self, into: Tensor, first: int, span: Span, moment: int, factors: Tensor, weights: Tensor, generation: int, run: int
    ) -> None:
        if moment == 2:
            into += weights.sum()
            return
        outputs, inputs = self.words_of(span.block, factors)
        columns = None
        if inputs is not None:
            columns = weighted_signs(inputs, span.block.inner, torch.ones_like(weights, dtype=torch.float32))
        if outputs is None:
            assert columns is not None
            into += weights.float() @ columns
            return
        rows = weighted_signs(outputs[:, (span.low + first) // 32 :], len(into), weights.float())
        if columns is None:
            into += rows.sum(0)[:, None]
        else:
            into.addmm_(rows.T, columns)

    def finished(self, gathered: Tensor, span: Span, low: int, high: int, moment: int, generation: int, run: int) -> Tensor:
        place = span.block.place
        noise = span.block.cube(self.shared.flat(generation, run)[place.start : place.stop])[low:high]
        lines = gathered[low - span.low : high - span.low] if len(gathered) > 1 else gathered
        return (noise if moment == 1 else noise * noise) * lines[:, :, None]

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        return FlippedPerturbation(self, generation, first, rows, dtype)


class FlippedPerturbation(StructuredPerturbation):
    """x (A E B)^T = ((x B) E^T) A: the layer with E, between two changes of sign."""

    sampler: SignFlip

    def apply(self, place: Place, x: Tensor, y: Tensor, operator: Operator) -> Tensor:
        block = self.block(place)
        outputs, inputs = self.sampler.words_of(block, self.factors)
        flipped = x if inputs is None else self._flipped(x, inputs, block, operator.channel)
        made = operator(flipped, self._shared(place))
        if outputs is None:
            return self.rows.add(y, made)
        return self.rows.add_flipped(y, made, outputs, operator.channel)

    def _shared(self, place: Place) -> Tensor:
        make = lambda flat: place.view(flat).to(self.dtype)  # noqa: E731
        return self.sampler.shared.weight(self.generation, self.run, (place.name, self.dtype), make)

    def _flipped(self, x: Tensor, inputs: Tensor, block: Block, channel: int) -> Tensor:
        groups = block.place.groups
        if groups == 1:
            return self.rows.flip(x, inputs, channel)
        # every group of channels has the same signs
        return self.rows.by_direction(x, random_signs(inputs, block.inner, x.dtype).repeat(1, groups), channel, torch.mul)

    def small(self, block: Block) -> Tensor:
        outputs, _ = self.sampler.words_of(block, self.factors)
        assert outputs is not None
        return random_signs(outputs, block.rows, self.dtype) * self._shared(block.place).view(-1)
