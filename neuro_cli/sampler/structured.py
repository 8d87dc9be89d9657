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
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.checks import integer
from neuro_cli.core.layout import ParameterLayout, Place
from neuro_cli.core.noise import SHARED_STREAM, Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import Perturbation, Sampler

PIECE = 256  # rows of a block that are summed at once; pieces start at multiples of it, so slices share their bits
CHUNK = 1024  # directions whose factors a thread holds at once for a sum
FACTORS = 2**28  # values of factors that a GPU holds at once for a sum: few launches count for more than memory there


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
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        out = torch.zeros(len(weights), stop - start, device=self.noise.device)
        spans = list(_spans(self.blocks.values(), start, stop))
        for run, first, last in self._runs(directions):
            chosen = (
                first
                - directions.start
                + np.flatnonzero(weights[:, first - directions.start : last - directions.start].any(axis=0))
            )
            if not len(chosen):
                continue
            self.prepare(generation, range(first, last))
            sums = [_Sum(self, span, row, moment, generation, run) for span in spans for row, moment in enumerate(moments)]
            self._gather_all(sums, weights, generation, directions, chosen)
            for made in sums:
                total = float(weights[made.row, chosen].sum()) if made.moment == 2 else 0.0
                self.noise.threads.map(partial(made.finish, out=out, start=start, total=total), made.pieces())
        return out

    def _runs(self, directions: range) -> Iterator[tuple[int, int, int]]:
        """(number, first, end) of each run of directions that share their noise."""
        length = self.noise_period or len(directions) + directions.start
        for run in range(directions.start // length, (directions[-1]) // length + 1):
            yield run, max(run * length, directions.start), min((run + 1) * length, directions.stop)

    def _gather_all(
        self, sums: list["_Sum"], weights: np.ndarray, generation: int, directions: range, chosen: np.ndarray
    ) -> None:
        """Let the directions in, a few lists of CHUNK at a time, each of which adds up for itself: threads change no bit."""
        threads = self.noise.threads
        tasks = [task for made in sums for task in made.tasks()]
        length = CHUNK if self.noise.device.type == "cpu" else max(CHUNK, FACTORS // max(self._columns, 1))
        lists = [chosen[low : low + length] for low in range(0, len(chosen), length)]
        for low in range(0, len(lists), threads.count):
            part = lists[low : low + threads.count]
            drawn = self._drawn(generation, [places + directions.start for places in part])
            shares = [torch.from_numpy(np.ascontiguousarray(weights[:, places])).to(self.noise.device) for places in part]
            threads.map(
                lambda job, drawn=drawn, shares=shares: tasks[job[0]].gather(job[1], drawn[job[1]], shares[job[1]]),  # type: ignore[misc]
                list(product(range(len(tasks)), range(len(part)))),
            )
            threads.map(lambda task: task.add(), tasks)

    def _drawn(self, generation: int, lists: list[np.ndarray]) -> list[Any]:
        """The factors of some lists of directions, drawn side by side."""
        drawn: list[Any] = [None] * len(lists)

        def draw(place: int) -> None:
            drawn[place] = self.factors(generation, _range_of(lists[place]))

        self.noise.threads.map(draw, range(len(lists)))
        return drawn

    @abstractmethod
    def gathering(self, block: Block, moment: int, low: int, high: int) -> Tensor:
        """Zeros for what a sum over directions gathers before it meets the shared noise, for rows [low, high)."""

    @abstractmethod
    def gather(
        self, into: Tensor, first: int, span: "Span", moment: int, factors: Any, weights: Tensor, generation: int, run: int
    ) -> None:
        """Add to lines [first, first + len(into)) of a :meth:`gathering` some directions with their ``weights`` (D,) float64."""

    @abstractmethod
    def finished(self, gathered: Tensor, span: "Span", low: int, high: int, moment: int, generation: int, run: int) -> Tensor:
        """The sum of eps (moment 1) or eps**2 (moment 2) for rows [low, high) of a span: (high - low, inner, spatial)."""


@dataclass(frozen=True)
class Span:
    """Rows [low, high) of a block, ``low`` a multiple of PIECE."""

    block: Block
    low: int
    high: int


class _Sum:
    """One row of weights over one span, while directions come in."""

    def __init__(self, sampler: Structured, span: Span, row: int, moment: int, generation: int, run: int) -> None:
        self._sampler, self._span, self.row, self.moment = sampler, span, row, moment
        self._generation, self._run = generation, run
        self._gathered = sampler.gathering(span.block, moment, span.low, span.high)

    def tasks(self) -> Iterator["_Lines"]:
        """Parts of the gathering that threads can fill side by side."""
        for first in range(0, len(self._gathered), PIECE):
            work = partial(
                self._sampler.gather, first=first, span=self._span, moment=self.moment, generation=self._generation, run=self._run
            )
            yield _Lines(self._gathered[first : first + PIECE], self.row, work)

    def pieces(self) -> range:
        """The first rows of the pieces of the span."""
        return range(self._span.low, self._span.high, PIECE)

    def finish(self, low: int, out: Tensor, start: int, total: float) -> None:
        """Add the sums of rows [low, low + PIECE) to columns [start, ..) in ``out`` (K, n), less ``total``."""
        block, high = self._span.block, min(low + PIECE, self._span.high)
        made = self._sampler.finished(self._gathered, self._span, low, high, self.moment, self._generation, self._run)
        first = block.place.start + low * block.width
        a, b = max(start, first), min(start + out.shape[1], block.place.start + high * block.width)
        if a < b:
            out[self.row, a - start : b - start] += block.flat(made)[a - first : b - first] - total


class _Lines:
    """Some lines of a gathering, and what single lists of directions have added up for them."""

    def __init__(self, total: Tensor, row: int, work: Callable[..., None]) -> None:
        self._total, self._row, self._work = total, row, work
        self._parts: dict[int, Tensor] = {}

    def gather(self, place: int, factors: Any, weights: Tensor) -> None:
        """Sum up list number ``place``."""
        part = torch.zeros_like(self._total)
        self._work(part, factors=factors, weights=weights[self._row])
        self._parts[place] = part

    def add(self) -> None:
        """Add the lists in their order."""
        for place in sorted(self._parts):
            self._total += self._parts[place]
        self._parts.clear()


def _range_of(directions: np.ndarray) -> Sequence[int]:
    """The directions as a range where they follow each other: a device makes that by itself."""
    first, last = int(directions[0]), int(directions[-1])
    return range(first, last + 1) if last - first + 1 == len(directions) else directions.tolist()


def _spans(blocks: Any, start: int, stop: int) -> Iterator[Span]:
    """Whole rows that cover columns [start, stop)."""
    for block in blocks:
        low, high = max(start, block.place.start), min(stop, block.place.stop)
        if low >= high:
            continue
        first = (low - block.place.start) // block.width // PIECE * PIECE
        last = -(-(high - block.place.start) // block.width)
        yield Span(block, first, min(-(-last // PIECE) * PIECE, block.rows))


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


class NoiseReusing(Structured):
    """A structured sampler whose directions share their noise: all of a generation, or each ``directions_per_noise``."""

    def __init__(self, directions_per_noise: int | None, antithetic: bool) -> None:
        super().__init__(antithetic)
        if directions_per_noise is not None:
            integer("sampler.directions_per_noise", directions_per_noise, 1)
        self._run_length = directions_per_noise

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        self.shared = SharedNoise(noise)

    @property
    def noise_period(self) -> int | None:
        return self._run_length

    def prepare(self, generation: int, directions: range) -> None:
        if self.run_of(directions[0]) == self.run_of(directions[-1]):
            self.shared.prepare(generation, self.run_of(directions[0]))


class StructuredPerturbation(Perturbation):
    """The factors of directions [first, first + D) and the sampler they belong to."""

    def __init__(self, sampler: Any, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> None:
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
