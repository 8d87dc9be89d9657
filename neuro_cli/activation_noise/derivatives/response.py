"""Linear models of a call's response: how its outputs change with its input, read off for unit inputs or learnt from changes.

Legend: N rows (positions or examples), m values that an output depends on, n outputs of a row.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv3d_input

from neuro_cli.activation_noise.derivatives.impulses import Impulses
from neuro_cli.core.rows import Geometry
from neuro_cli.sampler.patches import patches
from neuro_cli.scoring.passes.operators import lifted

RIDGE = 3e-4  # ridge penalty, in units of the mean square of the input's changes
ROWS = 128  # least rows of a fit, if the model has half as many unknowns
FIRST_ROWS = 2048  # most rows of a first fit, which finds twice as many rows as unknowns worth their cost
MORE = 4  # unit inputs of a fit at most, over the rows that the call has: large layers gain less by 8 than they take
SIZE = 16.0  # value of a unit input, a power of two: outputs are larger than the constant that is subtracted


@dataclass(frozen=True)
class ImageForm:
    """Form of a convolution: its ``kernel``'s axes; channels and axes of its input ``image``; axes of its outputs, ``sides``."""

    kernel: tuple[int, ...]
    geometry: Geometry
    image: tuple[int, ...]
    sides: tuple[int, ...]
    transposed: bool = False


class Response(ABC):
    """A linear model with weights ``matrix``, zero at first."""

    matrix: Tensor

    @abstractmethod
    def units(self, inputs: Sequence[int], turn: int, complete: bool) -> Tensor:
        """Return inputs float32 of a linear call whose outputs hold the model, for :meth:`read`.

        ``inputs``: shape of the call's, or of all calls' in one. Where units are too many for one fit, and it need not be
        ``complete``, ``turn`` chooses.
        """

    @abstractmethod
    def read(self, inputs: Tensor, outputs: Tensor) -> None:
        """Set the numbers that a linear call's ``outputs`` (float32) for the last :meth:`units` hold; ``inputs``: the model's."""

    @abstractmethod
    def pull_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        """Return the derivative by the input, of that ``shape``, from that by the outputs."""


class MatrixResponse(Response):
    """A model with one matrix (m, n) for all rows."""

    _fitted = False
    _left: Tensor | None = None  # marks values (m,) without a unit in the last reading; None for none

    def entries(self, outputs: Sequence[int], calls: int) -> int:
        """Return how many entries of the first axis a fit to ``calls`` with ``outputs`` of this shape needs of each."""
        unknowns, columns = self.matrix.shape[-2:]
        each = math.prod(outputs[1:]) // (self.matrix.numel() // unknowns)  # rows that an entry gives
        present = calls * outputs[0] * each
        self._fitted = self._fitted or bool(self.matrix.any())
        # a fit with as many rows as the calls have costs a few passes of them; the next fit has other rows
        most = max(ROWS, min(present, math.isqrt(present * columns)), 0 if self._fitted else FIRST_ROWS)
        most = min(most, 2 * unknowns)
        return -(-most // (calls * each))

    @abstractmethod
    def units_of_all(self, inputs: Sequence[int]) -> int:
        """Return how many entries of ``inputs`` a complete reading has."""

    def follow(self, inputs: Tensor, outputs: Tensor) -> None:
        """Fit what the last reading left out to rows of inputs (N, m) and outputs (N, n) of a linear call.

        Steps of an optimizer are sums over examples' inputs, so these inputs cover most of a step's change.
        """
        assert self._left is not None
        step = least_squares(inputs[:, self._left], outputs - inputs @ self.matrix)
        self.matrix = self.matrix.index_add(0, self._left.nonzero()[:, 0], step)

    @property
    def rows_to_follow(self) -> int:
        """Most rows for :meth:`follow`, whose products are then about those of a reading; 0 where nothing was left out."""
        return 0 if self._left is None or self.matrix.dim() != 2 else max(ROWS, MORE * self.matrix.shape[-1])

    @abstractmethod
    def input_rows(self, change: Tensor) -> Tensor:
        """Return a change of the input as (N, m)."""

    @abstractmethod
    def output_rows(self, change: Tensor) -> Tensor:
        """Return a change of the outputs as (N, n)."""

    def learn(self, changes: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Fit what the model does not explain of ``changes`` of the input and of the outputs."""
        inputs = _joined([self.input_rows(change) for change, _ in changes])
        outputs = _joined([self.output_rows(change) for _, change in changes])
        # not in place: the graph of a prediction may still need the old matrix
        self.matrix = self.matrix.add(least_squares(inputs, outputs - inputs @ self.matrix))


class Dense(MatrixResponse):
    """A dense model of all values of an example, or ``by_position`` of the last axis at each position."""

    def __init__(self, inputs: int, outputs: int, by_position: bool, device: torch.device) -> None:
        self.matrix, self._by_position = torch.zeros(inputs, outputs, device=device, dtype=torch.float32), by_position

    def units_of_all(self, inputs: Sequence[int]) -> int:
        return -(-(len(self.matrix) ** 2) // math.prod(inputs[1:]))

    def units(self, inputs: Sequence[int], turn: int, complete: bool) -> Tensor:
        size, values = len(self.matrix), math.prod(inputs[1:])
        most = size if complete else min(size, max(ROWS, MORE * inputs[0] * values // size))
        self._read = torch.arange(most, device=self.matrix.device)
        if most < size:
            zero = (~self.matrix.any(1)).nonzero()[:FIRST_ROWS, 0]  # all at first
            self._read = torch.cat([(self._read + turn * most) % size, zero]).unique()
        made = torch.zeros(-(-len(self._read) * size // values), *inputs[1:], device=self.matrix.device)
        made.view(-1, size)[torch.arange(len(self._read), device=made.device), self._read] = SIZE
        return made

    def read(self, inputs: Tensor, outputs: Tensor) -> None:
        rows = self.output_rows(outputs)[: len(self._read)] / SIZE
        if rows.isfinite().all():
            self.matrix = self.matrix.index_copy(0, self._read, rows)
        complete = len(rows) == len(self.matrix)
        self._left = None if complete else _others(self._read, torch.arange(len(self.matrix)), self.matrix[None])

    def input_rows(self, change: Tensor) -> Tensor:
        # products with a vector have one number for an example
        return change.flatten(0, -2) if self._by_position else change.reshape(len(change), -1)

    def output_rows(self, change: Tensor) -> Tensor:
        return self.input_rows(change)

    def pull_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        return (self.output_rows(derivative) @ self.matrix.T.to(derivative.dtype)).view(shape)


class Kernel(Response):
    """The kernel of a convolution of volumes, or of a transposed one, in ``groups``: ``matrix`` (groups, m, n)."""

    _left: Tensor | None = None
    _read: Tensor | None = None  # numbers of the images of the last reading; None for all

    def __init__(self, form: ImageForm, outputs: int, groups: int, device: torch.device) -> None:
        """``outputs``: channels of them."""
        self._form, self._groups = form, groups
        inputs = form.image[0] // groups * math.prod(form.kernel)
        self.matrix = torch.zeros(groups, inputs, outputs // groups, device=device, dtype=torch.float32)

    @cached_property
    def _impulses(self) -> Impulses:
        form = self._form
        return Impulses(form.kernel, form.geometry, form.image, form.sides, self._groups, form.transposed)

    def units_of_all(self, inputs: Sequence[int]) -> int:
        """Return how many images a complete reading has."""
        return self._impulses.entries

    def units(self, inputs: Sequence[int], turn: int, complete: bool) -> Tensor:
        entries, images = self._impulses.entries, self._impulses.images(self._form.image, SIZE)
        most = entries if complete or not self.matrix.any() else min(entries, MORE * inputs[0])
        self._read = None if most == entries else ((torch.arange(most) + turn * most) % entries).unique()
        images = images if self._read is None else images[self._read]
        return images.view(-1, *inputs[1:]).to(self.matrix.device)

    def read(self, inputs: Tensor, outputs: Tensor) -> None:
        (entry, *axes), tap = self._impulses.seen, self._impulses.tap
        if self._read is not None:
            place = torch.full((self._impulses.entries,), -1)
            place[self._read] = torch.arange(len(self._read))
            here = place[entry] >= 0
            entry, axes, tap = place[entry[here]], [axis[here] for axis in axes], tap[here]
        seen = (lifted(outputs) / SIZE).movedim(1, -1)[(entry, *axes)]
        rows = seen.unflatten(1, (self._groups, -1)).movedim(1, 0)
        matrix = self.matrix.view(self._groups, -1, rows.shape[2])
        if rows.isfinite().all():
            self.matrix = matrix.index_copy(1, tap.to(matrix.device), rows).view_as(self.matrix)
        self._left = None if self._read is None else _others(tap, self._impulses.tap, matrix)

    def pull_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        form, derivative = self._form, lifted(derivative)
        stride, padding, dilation = form.geometry.stride, form.geometry.padding, form.geometry.dilation
        taps = self.matrix.to(derivative.dtype).unflatten(1, (-1, *form.kernel)).movedim(-1, 2 if form.transposed else 1)
        weight = taps.flatten(0, 1)
        if form.transposed:
            call = F.conv3d if len(form.kernel) == 3 else F.conv2d
            by_input = call(derivative, weight, None, stride, padding, dilation, self._groups)
            # more values than the input has where the outputs were padded by a stride or more
            for axis, side in enumerate(form.image[1:], 2):
                by_input = by_input.narrow(axis, 0, side)
        else:
            by_input = conv3d_input((shape[0], *form.image), weight, derivative, stride, padding, dilation, self._groups)
        return by_input.reshape(shape)


class Convolution(Kernel, MatrixResponse):
    """A convolution of images (B, channels, ..), or of lines as images of height 1, to outputs (B, n, ..)."""

    def __init__(self, form: ImageForm, outputs: int, device: torch.device) -> None:
        """``outputs``: channels of them."""
        super().__init__(form, outputs, 1, device)
        self.matrix = self.matrix[0]

    def input_rows(self, change: Tensor) -> Tensor:
        parts = patches(lifted(change), self._form.kernel, self._form.geometry)
        return parts.permute(0, 4, 5, 1, 2, 3).reshape(-1, len(self.matrix))

    def output_rows(self, change: Tensor) -> Tensor:
        return change.flatten(2).transpose(1, 2).flatten(0, 1)

    def pull_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        form = self._form.geometry
        weight = self.matrix.mT.reshape(-1, self._form.image[0] // self._groups, *self._form.kernel).to(derivative.dtype)
        # up to twice as fast as with another order, on a CPU, and never slower
        weight = weight.contiguous(memory_format=torch.channels_last)
        images = (shape[0], *self._form.image)
        by_input = conv2d_input(images, weight, lifted(derivative), form.stride, form.padding, form.dilation, self._groups)
        return by_input if by_input.dim() == len(shape) else by_input.squeeze(2)


class GroupedConvolution(Convolution):
    """Convolution in ``groups``; ``matrix`` (groups, m, n) has one matrix per group."""

    def __init__(self, form: ImageForm, outputs: int, groups: int, device: torch.device) -> None:
        Kernel.__init__(self, form, outputs, groups, device)

    def input_rows(self, change: Tensor) -> Tensor:
        parts = patches(lifted(change), self._form.kernel, self._form.geometry).unflatten(1, (self._groups, -1))
        return parts.permute(1, 0, 5, 6, 2, 3, 4).reshape(self._groups, -1, self.matrix.shape[1])

    def output_rows(self, change: Tensor) -> Tensor:
        return change.flatten(2).unflatten(1, (self._groups, -1)).permute(1, 0, 3, 2).flatten(1, 2)

    def learn(self, changes: Sequence[tuple[Tensor, Tensor]]) -> None:
        inputs = torch.cat([self.input_rows(change) for change, _ in changes], 1)
        outputs = torch.cat([self.output_rows(change) for _, change in changes], 1)
        square = inputs.mT @ inputs
        mean = square.diagonal(dim1=1, dim2=2).mean(1)
        # a group without changes keeps its matrix: there both sides are zero
        square.diagonal(dim1=1, dim2=2).add_((RIDGE * mean + (mean == 0))[:, None])
        factor, failed = torch.linalg.cholesky_ex(square)
        step = torch.cholesky_solve(inputs.mT @ (outputs - inputs @ self.matrix), factor)
        right = (failed == 0) & step.isfinite().all(2).all(1)
        self.matrix = self.matrix.add(torch.where(right[:, None, None], step, 0.0))


class Diagonal(Response):
    """A slope for each value; ``shape`` of the slopes broadcasts to the input's, so that values may share one."""

    def __init__(self, shape: Sequence[int], device: torch.device) -> None:
        self.matrix = torch.zeros(tuple(shape), device=device, dtype=torch.float32)

    def units(self, inputs: Sequence[int], turn: int, complete: bool) -> Tensor:
        # signs alternate within an example and between two: no mean over any of these axes hides a value from a norm
        places = torch.arange(math.prod(inputs[1:]), device=self.matrix.device)
        return (SIZE * (1.0 - 2.0 * ((places + places.new_tensor([[0], [1]])) % 2))).view(2, *inputs[1:])

    def read(self, inputs: Tensor, outputs: Tensor) -> None:
        shape = self.matrix.shape
        squares, products = inputs.square().sum_to_size(shape), (inputs * outputs).sum_to_size(shape)
        slopes = torch.where(squares > 0, products / squares, self.matrix)
        if slopes.isfinite().all():
            self.matrix = slopes

    def pull_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        return derivative * self.matrix.to(derivative.dtype)


def _others(read: Tensor, known: Tensor, matrix: Tensor) -> Tensor | None:
    """Return which of m values of ``matrix`` (groups, m, n) are ``known``, by their numbers, and not ``read``; None for none."""
    left = torch.zeros(matrix.shape[1], dtype=torch.bool)
    left[known] = True
    left[read.to(left.device)] = False
    return left.to(matrix.device) if left.any() else None


def _joined(parts: list[Tensor]) -> Tensor:
    """Return rows one part after the other, without a copy of a single part."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def least_squares(rows: Tensor, targets: Tensor) -> Tensor:
    """Return the matrix (m, n) of the ridge regression of ``targets`` (N, n) on ``rows`` (N, m)."""
    if len(rows) < rows.shape[1]:  # the dual problem is the smaller system, with the same solution
        return rows.T @ _solve(rows @ rows.T, targets)
    return _solve(rows.T @ rows, rows.T @ targets)


def _solve(square: Tensor, right: Tensor) -> Tensor:
    """Solve ``square`` (k, k) with a ridge on its diagonal, which is changed; zeros where the result is not finite."""
    mean = square.diagonal().mean()
    if not mean > 0:
        return torch.zeros_like(right)
    square.diagonal().add_(RIDGE * mean)
    factor, failed = torch.linalg.cholesky_ex(square)
    # LAPACK is slow in solving for many columns
    wide = right.shape[1] > len(square)
    result: Tensor = torch.cholesky_inverse(factor) @ right if wide else torch.cholesky_solve(right, factor)
    return result if not failed and bool(result.isfinite().all()) else torch.zeros_like(right)
