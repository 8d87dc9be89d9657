"""Linear models of how a call's outputs change with its input, learnt from changes of both.

Legend: N rows (places or examples), m numbers that an output depends on, n outputs of a row.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input

from neuro_cli.core.rows import Geometry

RATE = 0.8  # share of what a generation's pass says that a model takes
RIDGE = 3e-3  # of the squares, in units of their mean
ROWS = 4096  # of a convolution that a generation learns from: places of outputs


@dataclass(frozen=True)
class ImageForm:
    """Form of a convolution: sides of its ``kernel``, and channels and sides of the ``image`` that it gets."""

    kernel: tuple[int, ...]
    geometry: Geometry
    image: tuple[int, ...]


class Response(ABC):
    """``matrix``, learnt from changes; zero at first."""

    matrix: Tensor

    @abstractmethod
    def learn(self, changes: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Take what the model does not foresee, from ``changes`` of the input and of the outputs."""

    @abstractmethod
    def taken_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        """Derivative by the input, of that ``shape``, from that by the outputs."""


class Matrix(Response):
    """A response that is a matrix (m, n) for every row."""

    @abstractmethod
    def rows(self, change: Tensor) -> Tensor:
        """Numbers (N, m) that outputs depend on, of a change of the input."""

    @abstractmethod
    def answers(self, change: Tensor) -> Tensor:
        """A change of the outputs as (N, n)."""

    def learn(self, changes: Sequence[tuple[Tensor, Tensor]]) -> None:
        rows = torch.cat([self.rows(change) for change, _ in changes])
        wanted = torch.cat([self.answers(answer) for _, answer in changes])
        # a new tensor: the graph of a prediction may still need the old one
        self.matrix = self.matrix.add(least_squares(rows, wanted - rows @ self.matrix), alpha=RATE)


class Dense(Matrix):
    """Outputs (.., n) of a place depend on the input (.., m) at that place; or those of an example on all of its input.

    ``places``: the former.
    """

    def __init__(self, inputs: int, outputs: int, places: bool, device: torch.device) -> None:
        self.matrix, self._places = torch.zeros(inputs, outputs, device=device, dtype=torch.float32), places

    def rows(self, change: Tensor) -> Tensor:
        return change.flatten(0, -2) if self._places else change.flatten(1)

    def answers(self, change: Tensor) -> Tensor:
        return self.rows(change)

    def taken_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        return (self.rows(derivative) @ self.matrix.T.to(derivative.dtype)).view(shape)


class Convolution(Matrix):
    """Outputs (B, n, ..) depend on images (B, channels, ..) as a convolution's do."""

    def __init__(self, form: ImageForm, outputs: Sequence[int], device: torch.device) -> None:
        """Take the form, and channels, height and width of the ``outputs``."""
        self._form = form
        self.matrix = torch.zeros(form.image[0] * form.kernel[0] * form.kernel[1], outputs[0], device=device, dtype=torch.float32)
        self._examples = -(-ROWS // (outputs[1] * outputs[2]))  # places of these suffice

    def rows(self, change: Tensor) -> Tensor:
        form = self._form.geometry
        columns = F.unfold(change[: self._examples], self._form.kernel, form.dilation, form.padding, form.stride)
        return columns.transpose(1, 2).flatten(0, 1)

    def answers(self, change: Tensor) -> Tensor:
        return change[: self._examples].flatten(2).transpose(1, 2).flatten(0, 1)

    def taken_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        form = self._form.geometry
        weight = self.matrix.T.reshape(-1, self._form.image[0], *self._form.kernel).to(derivative.dtype)
        return conv2d_input(tuple(shape), weight, derivative, form.stride, form.padding, form.dilation)


class Diagonal(Response):
    """Every output is a number times its slope: ``matrix`` has the slopes, in a shape that the input's goes down to."""

    def __init__(self, shape: Sequence[int], device: torch.device) -> None:
        self.matrix = torch.zeros(tuple(shape), device=device, dtype=torch.float32)

    def learn(self, changes: Sequence[tuple[Tensor, Tensor]]) -> None:
        shape = self.matrix.shape
        squares, products = torch.zeros_like(self.matrix), torch.zeros_like(self.matrix)
        for change, answer in changes:
            squares += change.square().sum_to_size(shape)
            products += (change * answer).sum_to_size(shape)
        mean = squares.mean()
        step = (products - squares * self.matrix) / (squares + RIDGE * mean)
        if mean > 0 and bool(step.isfinite().all()):
            self.matrix = self.matrix.add(step, alpha=RATE)

    def taken_back(self, derivative: Tensor, shape: Sequence[int]) -> Tensor:
        return derivative * self.matrix.to(derivative.dtype)


def least_squares(rows: Tensor, wanted: Tensor) -> Tensor:
    """The small matrix (m, n) with which ``rows`` (N, m) times it come near ``wanted`` (N, n): ridge regression."""
    if len(rows) < rows.shape[1]:  # the same by the smaller system
        return rows.T @ _solved(rows @ rows.T, wanted)
    return _solved(rows.T @ rows, rows.T @ wanted)


def _solved(square: Tensor, right: Tensor) -> Tensor:
    """``right`` over ``square`` (k, k), whose diagonal grows by a share of its mean; zeros where that is no number."""
    mean = square.diagonal().mean()
    if not mean > 0:
        return torch.zeros_like(right)
    square.diagonal().add_(RIDGE * mean)
    made: Tensor = torch.linalg.solve_ex(square, right)[0]
    return made if bool(made.isfinite().all()) else torch.zeros_like(right)
