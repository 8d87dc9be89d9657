"""Weighted sums over directions that add up the directions' factors before the shared noise is applied (associativity).

The shared noise then costs one small matrix product for each block, whatever the population, so that every rank can afford all of
it. Three hooks define the sum: a block's partial sum begins as zeros, accumulates directions, and is assembled with the noise
that the directions share.

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

FEW, MANY = 1024, 4096  # least and most directions in a list: a thread holds the factors of one list at a time
LIST, LISTS = 2**21, 2  # most factor values in a list longer than FEW, and least number of such lists
DEVICE_PIECE = 8192  # rows summed at once on a GPU, where launches cost most; a multiple of PIECE
FACTORS = 2**28  # factor values that a GPU keeps at once for a sum: memory is spent to save launches


class BlockSums(Sampler):
    """Sampler with factors for every block. ``factors``: the result of :meth:`factors` for some directions.

    ``sums_of_factors``: the factors are a tensor, and sums depend on that tensor and on the weights alone.
    """

    sums_of_factors = False

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        self.blocks, self._columns = blocks_of(layout, self.factor_columns)
        # a function of the population and the model only, so that ranks and threads change no bit
        self._length = max(FEW, min(MANY, LIST // max(self._columns, 1), -(-self.directions // LISTS)))

    @abstractmethod
    def factor_columns(self, block: Block) -> int:
        """Return the number of columns that a block's factors take in a direction."""

    @abstractmethod
    def factors(self, generation: int, directions: Sequence[int]) -> Any:
        """Draw the random factors of the directions for sums over blocks at once."""

    @abstractmethod
    def partial_zeros(self, target: BlockSum, out: Tensor | None = None) -> Tensor:
        """Return zeros (lines, ..) for the partial sum of directions, before the shared noise is applied.

        ``out``: memory of the sum itself (rows, width), for a partial sum of that size.
        """

    @abstractmethod
    def accumulate(self, lines: Tensor, first: int, target: BlockSum, factors: Any, weights: Tensor) -> None:
        """Add some directions with their ``weights`` (D,) float64 to ``lines``, the partial sum from line ``first`` on."""

    @abstractmethod
    def assemble(self, partial: Tensor, target: BlockSum, low: int, high: int) -> Tensor:
        """Return the sum (high - low, inner, spatial) for rows [low, high) of the block from the complete partial sum."""

    def write(self, partial: Tensor, target: BlockSum, low: int, high: int, out: Tensor) -> None:
        """Write :meth:`assemble` of these rows to ``out``, in the order of the flat vector; ``partial`` may share its memory."""
        out.copy_(target.block.flat(self.assemble(partial, target, low, high)).flatten())

    def whole_sum(self, target: BlockSum, factors: Any, weights: Tensor, out: Tensor) -> bool:
        """Write the sum of all directions to ``out``, in the order of the flat vector; return whether this was possible here."""
        return False

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        if self.noise.device.type != "cpu":
            return self._sums_on_device(weights, moments, generation, directions, start, stop)
        out, filled = self._empty(len(weights), stop - start), False
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

    def _empty(self, rows: int, columns: int) -> Tensor:
        """Return memory (rows, columns) for sums."""
        if self.room is not None and rows * columns <= len(self.room):
            return self.room[: rows * columns].view(rows, columns)
        return torch.empty(rows, columns, device=self.noise.device, dtype=torch.float32)

    @property
    def linear_share(self) -> float:
        """Share of the parameters that are weights of linear layers."""
        return sum(block.rows * block.width for block in self.blocks.values() if len(block.place.shape) == 2) / self.layout.size

    def _sums_on_device(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        """Return :meth:`sums` by few launches: large pieces, no threads, and no addition to zeros for a sum in one go."""
        device, filled = self.noise.device, False
        out = torch.empty(len(weights), stop - start, device=device, dtype=torch.float32)
        length = max(FEW, FACTORS // max(self._columns, 1))
        for period, first, last, chosen in self._chosen(weights, directions):
            self.prepare(generation, range(first, last))
            address = Address(generation, period)
            if (
                len(chosen) > (last - first) // 2
            ):  # a range needs no list from the host, and directions of weight zero add nothing
                chosen = np.arange(first - directions.start, last - directions.start)
            for low in range(0, len(chosen), length):
                places = chosen[low : low + length]
                factors = self.factors(generation, _range_of(places + directions.start))
                shares = gpu.sent(weights[:, places], device)
                all_used = self.sums_of_factors and len(places) == len(directions)
                if self.graphs is not None and all_used and stop - start <= SMALL:

                    def again(factors: Any, shares: Tensor, address: Address = address) -> Tensor:
                        sums = torch.empty(len(shares), stop - start, device=device, dtype=torch.float32)
                        self._add_list(sums, False, start, factors, shares, moments, address)
                        return sums

                    return self.graphs((tuple(moments), start, stop), again, [factors, shares])
                self._add_list(out, filled, start, factors, shares, moments, address)
                filled = True
        return out if filled else out.zero_()

    def _add_list(
        self, out: Tensor, filled: bool, start: int, factors: Any, shares: Tensor, moments: Sequence[int], address: Address
    ) -> None:
        """Write a list's sums to columns [start, ..) in ``out`` (K, n), or add them to the present values."""
        excess = [shares[row].sum().float() if moment == 2 else None for row, moment in enumerate(moments)]
        for block, bottom, top in row_spans(self.blocks.values(), start, start + out.shape[1], DEVICE_PIECE):
            for piece in range(bottom, top, DEVICE_PIECE):
                bounds = piece, min(piece + DEVICE_PIECE, top)
                for row, moment in enumerate(moments):
                    at, size = block.place.start + piece * block.width, (bounds[1] - piece) * block.width
                    a, b = max(start, at), min(start + out.shape[1], at + size)
                    present = out[row, a - start : b - start]
                    values = (
                        present if b - a == size and not filled else torch.empty(size, device=out.device, dtype=torch.float32)
                    )
                    self._piece_sum(BlockSum(block, *bounds, moment, address), factors, shares[row], values)
                    if (more := excess[row]) is not None:  # the hooks sum eps**2
                        values -= more
                    if values is not present:
                        (present.add_ if filled else present.copy_)(values[a - at : b - at])

    def _piece_sum(self, target: BlockSum, factors: Any, weights: Tensor, out: Tensor) -> None:
        """Write the sum over some directions for the rows of ``target`` to ``out``, in the order of the flat vector."""
        if not self.whole_sum(target, factors, weights, out):
            partial = self.partial_zeros(target)
            self.accumulate(partial, 0, target, factors, weights)
            out.copy_(target.block.flat(self.assemble(partial, target, target.low, target.high)).flatten())

    def _chosen(self, weights: np.ndarray, directions: range) -> Iterator[tuple[int, int, int, np.ndarray]]:
        """Yield each period of ``directions``, its bounds, and the places of weights that are not zero: others are not drawn."""
        for period, first, last in self._periods(directions):
            within = slice(first - directions.start, last - directions.start)
            chosen = within.start + np.flatnonzero(weights[:, within].any(axis=0))
            if len(chosen):
                yield period, first, last, chosen

    def _periods(self, directions: range) -> Iterator[tuple[int, int, int]]:
        """Yield number, first direction and end of each period of ``directions``."""
        length = self.noise_period or len(directions) + directions.start
        for period in range(directions.start // length, (directions[-1]) // length + 1):
            yield period, max(period * length, directions.start), min((period + 1) * length, directions.stop)

    def _accumulate(self, sums: list["_RowSum"], weights: np.ndarray, directions: range, chosen: np.ndarray) -> None:
        """Accumulate the directions, each thread one list at a time.

        Every list is summed from zero, and lists are added in their order, so that the number of threads changes no bit.
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
        """Draw the factors of some lists of directions, list by list in parallel."""
        drawn: list[Any] = [None] * len(lists)

        def draw(place: int) -> None:
            drawn[place] = self.factors(generation, _range_of(lists[place]))

        self.noise.threads.map(draw, range(len(lists)))
        return drawn


class _Slice(NamedTuple):
    """Row (n,) of the resulting sums, its first column, and whether it has the sum of other directions already."""

    line: Tensor
    start: int
    filled: bool

    def place_of(self, block: Block, low: int, high: int) -> tuple[slice, Tensor]:
        """Return which values of rows [low, high) of a block lie in the slice, and their memory in it."""
        first, last = (block.place.start + row * block.width for row in (low, high))
        a, b = max(self.start, first), min(self.start + len(self.line), last)
        return slice(a - first, b - first), self.line[a - self.start : b - self.start]


class _RowSum:
    """The partial sum of one row of weights."""

    def __init__(self, sampler: BlockSums, target: BlockSum, row: int, out: _Slice) -> None:
        self.sampler, self.target, self.row, self._out = sampler, target, row, out
        _, memory = out.place_of(target.block, target.low, target.high)
        complete = not out.filled and len(memory) == (target.high - target.low) * target.block.width
        self._partial = sampler.partial_zeros(target, memory.view(-1, target.block.width) if complete else None)

    def tasks(self) -> Iterator["_LineTask"]:
        """Return parts of a block's sum that threads can compute in parallel."""
        for first in range(0, len(self._partial), PIECE):
            yield _LineTask(self, self._partial[first : first + PIECE], first)

    def pieces(self) -> range:
        """Return the first rows of the pieces that are assembled one by one."""
        return range(self.target.low, self.target.high, PIECE)

    def write(self, excess: float, low: int) -> None:
        """Add the sum for rows [low, low + PIECE), less ``excess``, to the result."""
        block, high = self.target.block, min(low + PIECE, self.target.high)
        part, memory = self._out.place_of(block, low, high)
        if not self._out.filled and len(memory) == (high - low) * block.width:
            self.sampler.write(self._partial, self.target, low, high, memory)
            if excess:
                memory -= excess
            return
        values = block.flat(self.sampler.assemble(self._partial, self.target, low, high))[part]
        (memory.add_ if self._out.filled else memory.copy_)(values - excess if excess else values)


class _LineTask:
    """Some lines of a partial sum, and the sums of each list of directions for them."""

    def __init__(self, owner: _RowSum, lines: Tensor, first: int) -> None:
        self._owner, self._lines, self._first = owner, lines, first
        self._added: dict[int, Tensor] = {}

    def accumulate(self, place: int, factors: Any, weights: Tensor, alone: bool) -> None:
        """Sum up list number ``place``, into the lines themselves where it is the only list."""
        lines, owner = self._lines if alone else torch.zeros_like(self._lines), self._owner
        owner.sampler.accumulate(lines, self._first, owner.target, factors, weights[owner.row])
        if not alone:
            self._added[place] = lines

    def merge(self) -> None:
        """Add the lists of lines in their order."""
        for place in sorted(self._added):
            self._lines += self._added[place]
        self._added.clear()


def _range_of(directions: np.ndarray) -> Any:
    """Return consecutive directions as a range, which a device generates by itself."""
    first, last = int(directions[0]), int(directions[-1])
    return range(first, last + 1) if last - first + 1 == len(directions) else directions
