"""Blocks: parameters as structured samplers see them, and the arguments of the samplers' hooks.

A block is a matrix of (rows, inner, spatial) for the weight of a layer (rows: outputs; inner: inputs of one group; spatial: taps
of the kernel), or a vector of rows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor

from neuro_cli.core.layout import ParameterLayout, Place

PIECE = 256  # rows of a block summed at once; pieces start at its multiples, so that every slice has the same bits


@dataclass(frozen=True)
class Block:
    """Block, one parameter. ``first``: column of a direction at which its factors begin."""

    place: Place
    rows: int
    inner: int
    spatial: int
    vector: bool
    first: int

    @property
    def width(self) -> int:
        return self.inner * self.spatial

    @property
    def columns(self) -> slice:
        """Columns of the block in the flat vector of all parameters."""
        return slice(self.place.start, self.place.stop)

    def cube(self, piece: Tensor) -> Tensor:
        """Return a flat ``piece`` (.., n * width) of complete rows of the block as (.., n, inner, spatial)."""
        if self.inner_last:
            return piece.unflatten(-1, (-1, self.spatial, self.inner)).transpose(-1, -2)
        return piece.unflatten(-1, (-1, self.inner, self.spatial))

    def flat(self, cube: Tensor) -> Tensor:
        """Return the block's inverse of :meth:`cube`."""
        return (cube.transpose(-1, -2) if self.inner_last else cube).flatten(-3)

    def line(self, inner: np.ndarray) -> np.ndarray:
        """Repeat positions or factors of the inputs (.., inner) for every tap, in the order of a flat row: (.., width)."""
        return np.tile(inner, self.spatial) if self.inner_last else np.repeat(inner, self.spatial, axis=-1)

    @property
    def inner_last(self) -> bool:
        return len(self.place.shape) == 4 and self.place.channels_last


@dataclass(frozen=True)
class Address:
    """Noise that the directions of one period share in one generation."""

    generation: int
    period: int


class Sides(NamedTuple):  # a tuple is cheap, and every block of every member needs one
    """Values of both sides of a direction, float32, to be written in place; an empty side is left out."""

    plus: np.ndarray
    minus: np.ndarray


@dataclass(frozen=True)
class BlockSum:
    """Sum over directions of eps (``moment`` 1) or eps**2 (2) of one address, for rows [low, high) of a block.

    ``low`` is a multiple of PIECE.
    """

    block: Block
    low: int
    high: int
    moment: int
    address: Address


def blocks_of(layout: ParameterLayout, factors: Callable[[Block], int]) -> tuple[dict[str, Block], int]:
    """Return the blocks of a layout by name, and the number of columns that their factors take."""
    blocks, first = {}, 0
    for place in layout.places:
        vector = len(place.shape) < 2
        rows = place.shape[0] if place.shape else 1
        inner = 1 if vector else place.shape[1]
        size = place.stop - place.start
        block = Block(place, rows, inner, size // (rows * inner) if size else 0, vector, first)
        blocks[place.name] = block
        first += factors(block)
    return blocks, first


def row_spans(blocks: Iterable[Block], start: int, stop: int, piece: int = PIECE) -> Iterator[tuple[Block, int, int]]:
    """Return rows [low, high) of blocks that cover columns [start, stop): complete rows, ``low`` a multiple of ``piece``."""
    for block in blocks:
        low, high = max(start, block.place.start), min(stop, block.place.stop)
        if low >= high:
            continue
        first = (low - block.place.start) // block.width // piece * piece
        last = -(-(high - block.place.start) // block.width)
        yield block, first, min(-(-last // piece) * piece, block.rows)
