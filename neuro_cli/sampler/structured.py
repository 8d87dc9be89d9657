"""Base of the samplers with structured noise: a member is a few random factors, not M numbers.

The factors of all blocks of a direction lie one after the other in its columns of FACTOR_STREAM, so that one draw serves a
whole network. Sums over directions: :mod:`neuro_cli.sampler.block_sums`.

Legend: D directions, M columns.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.layout import Place
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import Perturbation
from neuro_cli.sampler.block_sums import BlockSums
from neuro_cli.sampler.blocks import Address, Block, Sides


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
