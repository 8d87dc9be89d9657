"""Samplers whose noise has a structure: a member is a few random factors, not M numbers.

What they have in common: a parameter is a *block*, a matrix of (rows, inner, spatial) for the weight of a layer (rows:
outputs; inner: inputs of one group; spatial: taps of the kernel) or a vector. The factors of all blocks of a direction
lie one after the other in its columns of FACTOR_STREAM, so that one draw serves a whole network. The weighted sum over
directions is worked out on the factors first (associative property): one small matrix product a block, whatever the
population is, and every rank can afford all of it.

Legend: D directions, M columns, K rows of weights, n rows of a piece.
"""

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.checks import integer
from neuro_cli.core.layout import ParameterLayout, Place
from neuro_cli.core.noise import SHARED_STREAM, Noise
from neuro_cli.core.rows import Rows
from neuro_cli.sampler.base import Perturbation, Sampler

PIECE = 128  # rows of a block that are summed at once; pieces start at multiples of it, so slices share their bits
CHUNK = 1024  # directions whose factors are held at once by a sum


@dataclass(frozen=True)
class Block:
    """A parameter as a sampler sees it. ``first``: where its factors begin in the columns of a direction."""

    place: Place
    rows: int
    inner: int
    spatial: int
    vector: bool
    first: int

    @property
    def width(self) -> int:
        return self.inner * self.spatial

    def cube(self, piece: Tensor) -> Tensor:
        """A flat ``piece`` (.., n * width) of whole rows as (.., n, inner, spatial)."""
        if self.inner_last:
            return piece.unflatten(-1, (-1, self.spatial, self.inner)).transpose(-1, -2)
        return piece.unflatten(-1, (-1, self.inner, self.spatial))

    def flat(self, cube: Tensor) -> Tensor:
        """The inverse of :meth:`cube`."""
        return (cube.transpose(-1, -2) if self.inner_last else cube).flatten(-3)

    def line(self, inner: np.ndarray) -> np.ndarray:
        """Positions or factors of the inputs (inner,), repeated for every tap in the order of a flat row: (width,)."""
        return np.tile(inner, self.spatial) if self.inner_last else np.repeat(inner, self.spatial)

    @property
    def inner_last(self) -> bool:
        return len(self.place.shape) == 4 and self.place.channels_last


def blocks_of(layout: ParameterLayout, factors: Callable[[Block], int]) -> tuple[dict[str, Block], int]:
    """The blocks of a layout by name, and the columns that the factors of all of them take."""
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


class Structured(Sampler):
    """Base of the structured samplers. ``Factors``: whatever :meth:`factors` gives for some directions."""

    reuses_noise = True

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        self.blocks, self._columns = blocks_of(layout, self.factor_columns)

    @abstractmethod
    def factor_columns(self, block: Block) -> int:
        """How many columns of factors a block takes in a direction."""

    @abstractmethod
    def factors(self, generation: int, directions: Sequence[int]) -> Any:
        """The random factors of the directions, drawn at once."""

    @abstractmethod
    def block_noise(self, block: Block, factors: Any, generation: int, direction: int, dtype: torch.dtype) -> Tensor:
        """The noise (rows, inner, spatial) of the only direction of ``factors``, in plain torch operations."""

    @abstractmethod
    def perturb_block(
        self, block: Block, factors: Any, generation: int, direction: int, base: np.ndarray, scale: np.ndarray,
        plus: np.ndarray, minus: np.ndarray,
    ) -> None:  # fmt: skip
        """:meth:`perturb` of one block on a CPU, by compiled loops; an empty ``plus`` or ``minus`` is left out."""

    def explicit(self, generation: int, direction: int, dtype: torch.dtype = torch.float32) -> Tensor:
        factors = self.factors(generation, [direction])
        parts = [b.flat(self.block_noise(b, factors, generation, direction, dtype)) for b in self.blocks.values()]
        return torch.cat(parts)

    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        if base.device.type != "cpu":
            step = scale * self.explicit(generation, direction)
            for out, operation in ((plus, torch.add), (minus, torch.sub)):
                if out is not None:
                    operation(base, step, out=out)
            return
        factors, empty = self.factors(generation, [direction]), np.empty(0, np.float32)
        for block in self.blocks.values():
            part = slice(block.place.start, block.place.stop)
            spread = scale.numpy() if scale.numel() == 1 else scale[part].numpy()
            sides = [empty if out is None else out[part].numpy() for out in (plus, minus)]
            self.perturb_block(block, factors, generation, direction, base[part].numpy(), spread, *sides)

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: Sequence[int], start: int, stop: int
    ) -> Tensor:
        out = torch.zeros(len(weights), stop - start, device=self.noise.device)
        pieces = [_Piece(block, low, high) for block, low, high in _pieces(self.blocks.values(), start, stop)]
        for run, places in groupby(np.flatnonzero(weights.any(axis=0)), lambda place: self.run_of(directions[int(place)])):
            chosen = [int(place) for place in places]
            self.prepare(generation, range(directions[chosen[0]], directions[chosen[-1]] + 1))
            for low in range(0, len(chosen), CHUNK):
                part = chosen[low : low + CHUNK]
                factors = self.factors(generation, [directions[place] for place in part])
                share = torch.from_numpy(np.ascontiguousarray(weights[:, part])).to(out.device)
                work = partial(self._gather, factors=factors, weights=share, moments=moments, generation=generation, run=run)
                self.noise.threads.map(work, pieces)
            totals = weights[:, chosen].sum(axis=1)
            finish = partial(self._finish, generation=generation, run=run, totals=totals, moments=moments, out=out, start=start)
            self.noise.threads.map(finish, pieces)
        return out

    def run_of(self, direction: int) -> int:
        """Which run of directions, all with the same shared noise, a direction belongs to."""
        return direction // self.run_of_directions if self.run_of_directions else 0

    def _gather(self, piece: "_Piece", factors: Any, weights: Tensor, moments: Sequence[int], generation: int, run: int) -> None:
        """Add the factors of some directions to what the piece has gathered."""
        for row, moment in enumerate(moments):
            made = self.gathered(piece.block, factors, weights[row], moment, generation, run, piece.low, piece.high)
            piece.gathered[row] = piece.gathered[row] + made if row in piece.gathered else made

    def _finish(
        self, piece: "_Piece", generation: int, run: int, totals: np.ndarray, moments: Sequence[int], out: Tensor, start: int
    ) -> None:
        """Add the piece's sums to the slice of ``out`` that it overlaps."""
        block = piece.block
        first = block.place.start + piece.low * block.width
        low, high = max(start, first), min(start + out.shape[1], block.place.start + piece.high * block.width)
        for row, moment in enumerate(moments):
            made = self.finished(block, piece.gathered.pop(row), generation, run, moment, piece.low, piece.high)
            flat = block.flat(made)[low - first : high - first]
            out[row, low - start : high - start] += flat if moment == 1 else flat - float(totals[row])

    @abstractmethod
    def gathered(
        self, block: Block, factors: Any, weights: Tensor, moment: int, generation: int, run: int, low: int, high: int
    ) -> Tensor:
        """The weighted sum over the directions of ``factors`` of what rows [low, high) need; ``weights`` (D,) float64."""

    @abstractmethod
    def finished(self, block: Block, gathered: Tensor, generation: int, run: int, moment: int, low: int, high: int) -> Tensor:
        """The sum of eps (moment 1) or eps**2 (moment 2) over a run of directions, (high - low, inner, spatial)."""


class _Piece:
    """Rows [low, high) of a block, and what has been gathered for them by row of weights."""

    def __init__(self, block: Block, low: int, high: int) -> None:
        self.block, self.low, self.high = block, low, high
        self.gathered: dict[int, Tensor] = {}


def _pieces(blocks: Any, start: int, stop: int) -> Iterator[tuple[Block, int, int]]:
    """Pieces of whole rows that cover columns [start, stop)."""
    for block in blocks:
        low, high = max(start, block.place.start), min(stop, block.place.stop)
        if low >= high:
            continue
        first = (low - block.place.start) // block.width // PIECE * PIECE
        last = -(-(high - block.place.start) // block.width)
        for row in range(first, last, PIECE):
            yield block, row, min(row + PIECE, block.rows)


class SharedNoise:
    """The noise that the directions of a generation (or of a run of them) share: drawn once, kept while in use."""

    def __init__(self, noise: Noise) -> None:
        self._noise, self._lock = noise, threading.Lock()
        self._runs: OrderedDict[tuple[int, int], tuple[Tensor, dict[Any, Tensor]]] = OrderedDict()

    def prepare(self, generation: int, run: int) -> None:
        """Draw a run's noise with all threads. Not for a task of the pool, which would wait for itself."""
        if (generation, run) not in self._runs:
            self._keep((generation, run), self._noise.draw_whole(generation, run, SHARED_STREAM))

    def flat(self, generation: int, run: int) -> Tensor:
        """The noise (M,) float32 of a run of directions."""
        return self._run(generation, run)[0]

    def weight(self, generation: int, run: int, name: Any, make: Callable[[Tensor], Tensor]) -> Tensor:
        """What ``make`` gives for the noise of a run, made once for each ``name``."""
        flat, made = self._run(generation, run)
        if name not in made:
            made[name] = make(flat)  # two threads may both make it: the same numbers
        return made[name]

    def _run(self, generation: int, run: int) -> tuple[Tensor, dict[Any, Tensor]]:
        with self._lock:
            found = self._runs.get((generation, run))
        return found or self._keep((generation, run), self._noise.draw(generation, [run], stream=SHARED_STREAM)[0])

    def _keep(self, key: tuple[int, int], flat: Tensor) -> tuple[Tensor, dict[Any, Tensor]]:
        with self._lock:
            kept = self._runs.setdefault(key, (flat, {}))
            while len(self._runs) > self._noise.threads.count:  # a run for each thread at most
                self._runs.popitem(last=False)
            return kept


class StructuredPerturbation(Perturbation):
    """The factors of directions [first, first + D) and the sampler they belong to."""

    def __init__(self, sampler: Any, generation: int, first: int, rows: Rows, dtype: torch.dtype) -> None:
        self.sampler, self.rows, self.dtype, self.generation, self.first = sampler, rows, dtype, generation, first
        self.run = sampler.run_of(first)
        assert self.run == sampler.run_of(first + rows.directions - 1)
        self.factors = sampler.factors(generation, range(first, first + rows.directions))

    def block(self, place: Place) -> Block:
        found: Block = self.sampler.blocks[place.name]
        return found

    @abstractmethod
    def small(self, block: Block) -> Tensor:
        """The noise of a vector block itself, (D, rows)."""

    def vectors(self, place: Place) -> Tensor:
        block = self.block(place)
        if block.vector:
            return self.small(block)
        one_by_one = range(self.first, self.first + self.rows.directions)  # the scale of a norm over several dimensions
        explicit = [self.sampler.explicit(self.generation, direction, self.dtype) for direction in one_by_one]
        return torch.stack([noise[place.start : place.stop] for noise in explicit])


def run_length(key: str, value: int | None) -> int | None:
    """The checked length of a run of directions. Raises ConfigError."""
    return None if value is None else integer(key, value, 1)
