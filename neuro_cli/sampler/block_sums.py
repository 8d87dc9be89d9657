"""Weighted sums over directions, worked out on their factors first (associative property).

One small matrix product a block, whatever the population is, so every rank can afford all of it. Three hooks say how: a
block's partial sum begins as zeros, accumulates directions, and is assembled to the sum with the noise that the
directions share.

Legend: D directions, M columns, K rows of weights.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.kernels import gpu
from neuro_cli.core.kernels.graphs import SMALL
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.noise import Noise
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.blocks import PIECE, Address, Block, BlockSum, blocks_of, row_spans

FEW, MANY = 1024, 4096  # least and most directions of a list: a thread holds the factors of one list at once
LIST, LISTS = 2**21, 2  # values of factors of a list that has more than the least, and how many such lists there are at least
DEVICE_PIECE = 8192  # rows that are summed at once on a GPU, where launches count; a multiple of PIECE
FACTORS = 2**28  # values of factors that a GPU holds at once for a sum: few launches count for more than memory there


class BlockSums(Sampler):
    """Sampler with factors for every block. ``factors``: whatever :meth:`factors` gives for some directions.

    ``sums_of_factors``: those are a tensor, and sums depend on it and on the weights alone.
    """

    sums_of_factors = False

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        self.blocks, self._columns = blocks_of(layout, self.factor_columns)
        # of the population and the model, never of ranks or threads, which so change no bit
        self._length = max(FEW, min(MANY, LIST // max(self._columns, 1), -(-self.directions // LISTS)))

    @abstractmethod
    def factor_columns(self, block: Block) -> int:
        """Columns of factors that a block takes in a direction."""

    @abstractmethod
    def factors(self, generation: int, directions: Sequence[int]) -> Any:
        """Random factors of the directions, drawn at once."""

    @abstractmethod
    def partial_zeros(self, target: BlockSum, there: Tensor | None = None) -> Tensor:
        """Zeros (lines, ..) for what directions add up to before it meets the shared noise.

        ``there``: where the sum itself (rows, width) belongs, for zeros of that size.
        """

    @abstractmethod
    def accumulate(self, lines: Tensor, first: int, target: BlockSum, factors: Any, weights: Tensor) -> None:
        """Add some directions with their ``weights`` (D,) float64 to ``lines``, the partial sum from line ``first`` on."""

    @abstractmethod
    def assemble(self, partial: Tensor, target: BlockSum, low: int, high: int) -> Tensor:
        """The sum (high - low, inner, spatial) for rows [low, high) of the block, from the whole partial sum."""

    def write(self, partial: Tensor, target: BlockSum, low: int, high: int, out: Tensor) -> None:
        """Write :meth:`assemble` of these rows to ``out``, in the order of the flat vector, where ``partial`` may lie already."""
        out.copy_(target.block.flat(self.assemble(partial, target, low, high)).flatten())

    def whole_sum(self, target: BlockSum, factors: Any, weights: Tensor, out: Tensor) -> bool:
        """Write the sum of all directions to ``out``, in the order of the flat vector, and say whether that was done here."""
        return False

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        if self.noise.device.type != "cpu":
            return self._sums_on_device(weights, moments, generation, directions, start, stop)
        out, filled = torch.empty(len(weights), stop - start, device=self.noise.device, dtype=torch.float32), False
        spans = list(row_spans(self.blocks.values(), start, stop))
        for period, first, last, chosen in self._chosen(weights, directions):
            self.prepare(generation, range(first, last))
            address = Address(generation, period)
            sums = [
                _RowSum(self, BlockSum(*span, moment, address), row, _Slice(out[row], start, filled))
                for span in spans
                for row, moment in enumerate(moments)
            ]
            self._accumulate(sums, weights, directions, chosen)
            for each in sums:
                # moment 2 is eps**2 - 1, and the hooks sum eps**2
                excess = float(weights[each.row, chosen].sum()) if each.target.moment == 2 else 0.0
                self.noise.threads.map(partial(each.write, excess), each.pieces())
            filled = True
        return out if filled else out.zero_()

    def _sums_on_device(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        """:meth:`sums` with few launches: pieces of many rows, no threads, and no zeros to add to where a sum is made at once."""
        device, filled = self.noise.device, False
        out = torch.empty(len(weights), stop - start, device=device, dtype=torch.float32)
        length = max(FEW, FACTORS // max(self._columns, 1))
        for period, first, last, chosen in self._chosen(weights, directions):
            self.prepare(generation, range(first, last))
            address = Address(generation, period)
            if len(chosen) > (last - first) // 2:  # a range needs no list from the host; what weighs nothing adds nothing
                chosen = np.arange(first - directions.start, last - directions.start)
            for low in range(0, len(chosen), length):
                places = chosen[low : low + length]
                factors = self.factors(generation, _range_of(places + directions.start))
                shares = gpu.sent(weights[:, places], device)
                whole = self.sums_of_factors and len(places) == len(directions)
                if self.graphs is not None and whole and stop - start <= SMALL:

                    def again(factors: Any, shares: Tensor, address: Address = address) -> Tensor:
                        made = torch.empty(len(shares), stop - start, device=device, dtype=torch.float32)
                        self._add_list(made, False, start, factors, shares, moments, address)
                        return made

                    return self.graphs((tuple(moments), start, stop), again, [factors, shares])
                self._add_list(out, filled, start, factors, shares, moments, address)
                filled = True
        return out if filled else out.zero_()

    def _add_list(
        self, out: Tensor, filled: bool, start: int, factors: Any, shares: Tensor, moments: Sequence[int], address: Address
    ) -> None:
        """Write a list's sums to columns [start, ..) in ``out`` (K, n), or add them to what fills it."""
        excess = [shares[row].sum().float() if moment == 2 else None for row, moment in enumerate(moments)]
        for block, bottom, top in row_spans(self.blocks.values(), start, start + out.shape[1], DEVICE_PIECE):
            for piece in range(bottom, top, DEVICE_PIECE):
                bounds = piece, min(piece + DEVICE_PIECE, top)
                for row, moment in enumerate(moments):
                    at, size = block.place.start + piece * block.width, (bounds[1] - piece) * block.width
                    a, b = max(start, at), min(start + out.shape[1], at + size)
                    there = out[row, a - start : b - start]
                    made = there if b - a == size and not filled else torch.empty(size, device=out.device, dtype=torch.float32)
                    self._piece_sum(BlockSum(block, *bounds, moment, address), factors, shares[row], made)
                    if (more := excess[row]) is not None:  # the hooks sum eps**2
                        made -= more
                    if made is not there:
                        (there.add_ if filled else there.copy_)(made[a - at : b - at])

    def _piece_sum(self, target: BlockSum, factors: Any, weights: Tensor, out: Tensor) -> None:
        """Write the sum over some directions for the rows of ``target`` to ``out``, in the order of the flat vector."""
        if not self.whole_sum(target, factors, weights, out):
            partial = self.partial_zeros(target)
            self.accumulate(partial, 0, target, factors, weights)
            out.copy_(target.block.flat(self.assemble(partial, target, target.low, target.high)).flatten())

    def _chosen(self, weights: np.ndarray, directions: range) -> Iterator[tuple[int, int, int, np.ndarray]]:
        """Each period of ``directions``, its bounds, and the places of those that weigh something; others are not even drawn."""
        for period, first, last in self._periods(directions):
            own = slice(first - directions.start, last - directions.start)
            chosen = own.start + np.flatnonzero(weights[:, own].any(axis=0))
            if len(chosen):
                yield period, first, last, chosen

    def _periods(self, directions: range) -> Iterator[tuple[int, int, int]]:
        """Number, first direction and end of each period that ``directions`` lie in."""
        length = self.noise_period or len(directions) + directions.start
        for period in range(directions.start // length, (directions[-1]) // length + 1):
            yield period, max(period * length, directions.start), min((period + 1) * length, directions.stop)

    def _accumulate(self, sums: list["_RowSum"], weights: np.ndarray, directions: range, chosen: np.ndarray) -> None:
        """Let the directions in, a list a thread at a time.

        Every list is summed from zero and lists are added in their order: so the number of threads changes no bit.
        """
        threads, generation = self.noise.threads, sums[0].target.address.generation
        tasks = [task for each in sums for task in each.tasks()]
        lists = [chosen[low : low + self._length] for low in range(0, len(chosen), self._length)]
        alone = len(lists) == 1
        for low in range(0, len(lists), threads.count):
            part = lists[low : low + threads.count]
            drawn = self._drawn(generation, [places + directions.start for places in part])
            shares = [torch.from_numpy(np.ascontiguousarray(weights[:, places])).to(self.noise.device) for places in part]
            threads.map(
                lambda job, drawn=drawn, shares=shares: tasks[job[0]].accumulate(job[1], drawn[job[1]], shares[job[1]], alone),  # type: ignore[misc]
                list(product(range(len(tasks)), range(len(part)))),
            )
            threads.map(lambda task: task.merge(), tasks)

    def _drawn(self, generation: int, lists: list[np.ndarray]) -> list[Any]:
        """The factors of some lists of directions, drawn side by side."""
        drawn: list[Any] = [None] * len(lists)

        def draw(place: int) -> None:
            drawn[place] = self.factors(generation, _range_of(lists[place]))

        self.noise.threads.map(draw, range(len(lists)))
        return drawn


class _Slice(NamedTuple):
    """Row (n,) of the sums' outcome, its first column, and whether other directions have filled it."""

    line: Tensor
    start: int
    filled: bool

    def place_of(self, block: Block, low: int, high: int) -> tuple[slice, Tensor]:
        """Numbers of rows [low, high) of a block that lie in the slice, and where they lie."""
        first, last = (block.place.start + row * block.width for row in (low, high))
        a, b = max(self.start, first), min(self.start + len(self.line), last)
        return slice(a - first, b - first), self.line[a - self.start : b - self.start]


class _RowSum:
    """The partial sum of one row of weights."""

    def __init__(self, sampler: BlockSums, target: BlockSum, row: int, out: _Slice) -> None:
        self.sampler, self.target, self.row, self._out = sampler, target, row, out
        _, there = out.place_of(target.block, target.low, target.high)
        whole = not out.filled and len(there) == (target.high - target.low) * target.block.width
        self._partial = sampler.partial_zeros(target, there.view(-1, target.block.width) if whole else None)

    def tasks(self) -> Iterator["_LineTask"]:
        """Parts that threads can fill side by side."""
        for first in range(0, len(self._partial), PIECE):
            yield _LineTask(self, self._partial[first : first + PIECE], first)

    def pieces(self) -> range:
        """First rows of the pieces that are assembled one by one."""
        return range(self.target.low, self.target.high, PIECE)

    def write(self, excess: float, low: int) -> None:
        """Add the sum for rows [low, low + PIECE), less ``excess``, to the outcome."""
        block, high = self.target.block, min(low + PIECE, self.target.high)
        part, there = self._out.place_of(block, low, high)
        if not self._out.filled and len(there) == (high - low) * block.width:
            self.sampler.write(self._partial, self.target, low, high, there)
            if excess:
                there -= excess
            return
        whole = block.flat(self.sampler.assemble(self._partial, self.target, low, high))[part]
        (there.add_ if self._out.filled else there.copy_)(whole - excess if excess else whole)


class _LineTask:
    """Some lines of a partial sum, and what each list of directions adds to them."""

    def __init__(self, owner: _RowSum, lines: Tensor, first: int) -> None:
        self._owner, self._lines, self._first = owner, lines, first
        self._added: dict[int, Tensor] = {}

    def accumulate(self, place: int, factors: Any, weights: Tensor, alone: bool) -> None:
        """Sum up list number ``place``; where it is the only one, into the lines themselves."""
        lines, owner = self._lines if alone else torch.zeros_like(self._lines), self._owner
        owner.sampler.accumulate(lines, self._first, owner.target, factors, weights[owner.row])
        if not alone:
            self._added[place] = lines

    def merge(self) -> None:
        """Add the lists in their order."""
        for place in sorted(self._added):
            self._lines += self._added[place]
        self._added.clear()


def _range_of(directions: np.ndarray) -> Any:
    """The directions as a range where they follow each other: a device makes that by itself."""
    first, last = int(directions[0]), int(directions[-1])
    return range(first, last + 1) if last - first + 1 == len(directions) else directions
