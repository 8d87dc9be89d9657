"""Linear models of how a layer's outputs change with those of the layers that they are made of.

Legend: B examples, N rows (places or examples), m numbers that an output depends on, n outputs of a row.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input

from neuro_cli.core.rows import Geometry
from neuro_cli.scoring.activation.found import FoundLayer
from neuro_cli.scoring.activation.own_weights import NAMES, Arguments
from neuro_cli.scoring.operators import Unsupported, geometry_of

RATE = 0.5  # share of what a generation's pass says that a model takes
RIDGE = 3e-3  # of the squares, in units of their mean
ROWS = 4096  # of a convolution that a generation learns from: places of outputs


@dataclass(frozen=True)
class ImageForm:
    """Form of a convolution: sides of its ``kernel`` and of the ``image`` that it gets."""

    kernel: tuple[int, int]
    geometry: Geometry
    image: tuple[int, int]


def image_form(layer: FoundLayer) -> ImageForm | None:
    """The form of a layer that begins with a convolution of images, or a norm of their channels; None for another one."""
    first = (*layer.earlier, layer)[0]
    if first.func in (torch.batch_norm, torch.group_norm) and first.args[0].dim() == 4:
        # a scale for each channel; what a change does to the statistics is left out
        return ImageForm((1, 1), Geometry(), tuple(first.args[0].shape[2:]))
    if first.func is not F.conv2d:
        return None
    call = Arguments(NAMES[first.func], first.args, first.kwargs)
    x, weight = call["input"], call["weight"]
    try:
        geometry = geometry_of(weight, call["stride"], call["padding"], call["dilation"], 1)
    except Unsupported:  # padding that torch does not unfold
        return None
    return ImageForm(tuple(weight.shape[2:]), geometry, tuple(x.shape[2:])) if x.dim() == 4 else None


class Norm:
    """A layer norm without its weights around the clean pass. ``x`` (.., n): what it got; ``centred``: without the means."""

    def __init__(self, x: Tensor, eps: float, centred: bool) -> None:
        self._centred, rows = centred, x.float().flatten(0, -2)
        rows = rows - rows.mean(-1, keepdim=True) if centred else rows
        self._scale = (rows.square().mean(-1, keepdim=True) + eps).rsqrt()
        self._normal = rows * self._scale

    def __call__(self, change: Tensor) -> Tensor:
        """What its outcome changes by with ``change`` (N, n) of ``x``; the derivative by it too, since that is symmetric."""
        change = change - change.mean(-1, keepdim=True) if self._centred else change
        return (change - self._normal * (self._normal * change).mean(-1, keepdim=True)) * self._scale


def norm_of(layer: FoundLayer) -> Norm | None:
    """The norm of a layer that begins with a layer norm over the last axis; None for another one."""
    first = (*layer.earlier, layer)[0]
    if first.func not in (torch.layer_norm, torch.rms_norm) or first.kwargs or len(first.args[1]) != 1:
        return None
    centred = first.func is torch.layer_norm
    x, eps = first.args[0].detach(), first.args[4 if centred else 3]
    return Norm(x, torch.finfo(x.dtype).eps if eps is None else eps, centred)


class Response(ABC):
    """``matrix`` (m, n), learnt from changes; zero at first."""

    matrix: Tensor

    @abstractmethod
    def rows(self, changes: Sequence[Tensor]) -> Tensor:
        """What the outputs depend on, (N, m), from the changes that the sources pass on."""

    @abstractmethod
    def outputs(self, change: Tensor) -> Tensor:
        """A change of the outputs as (N, n)."""

    @abstractmethod
    def foreseen(self, changes: Sequence[Tensor]) -> Tensor:
        """The change of the outputs that ``changes`` of the sources make, as :meth:`outputs` gets it."""

    @abstractmethod
    def derivatives(self, derivative: Tensor) -> list[Tensor]:
        """Derivatives by what each of the sources passes on from that by the outputs, each as :meth:`rows` gets it."""

    def learn(self, changes: Sequence[Tensor], response: Tensor) -> None:
        """Take what the model does not foresee, from ``changes`` of the sources, of ``response``, a change of the outputs."""
        rows = self.rows(changes)
        self.matrix.add_(least_squares(rows, self.outputs(response) - rows @ self.matrix), alpha=RATE)


class Dense(Response):
    """Every output of a row depends on all numbers of that row: changes come as (N, each source's), outputs as (N, n)."""

    def __init__(self, sizes: Sequence[int], outputs: int, device: torch.device) -> None:
        self._sizes = list(sizes)
        self.matrix = torch.zeros(sum(sizes), outputs, device=device)

    def rows(self, changes: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(changes), 1) if len(changes) > 1 else changes[0]

    def outputs(self, change: Tensor) -> Tensor:
        return change

    def foreseen(self, changes: Sequence[Tensor]) -> Tensor:
        return self.rows(changes) @ self.matrix

    def derivatives(self, derivative: Tensor) -> list[Tensor]:
        return list((derivative @ self.matrix.T).split(self._sizes, 1))


class Convolution(Response):
    """Outputs (B, n, ..) depend on images (B, channels, ..) of the sources as a convolution's do."""

    def __init__(self, channels: Sequence[int], form: ImageForm, outputs: Sequence[int], device: torch.device) -> None:
        """Take the channels of each source, and the channels, height and width of the outputs."""
        self._channels, self._kernel, self._geometry, self._image = list(channels), form.kernel, form.geometry, form.image
        self.matrix = torch.zeros(sum(channels) * form.kernel[0] * form.kernel[1], outputs[0], device=device)
        self._examples = -(-ROWS // (outputs[1] * outputs[2]))

    def rows(self, changes: Sequence[Tensor]) -> Tensor:
        images = torch.cat([self._few(change) for change in changes], 1)
        form = self._geometry
        columns = F.unfold(images, self._kernel, form.dilation, form.padding, form.stride)
        return columns.transpose(1, 2).flatten(0, 1)

    def outputs(self, change: Tensor) -> Tensor:
        return self._few(change).flatten(2).transpose(1, 2).flatten(0, 1)

    def _few(self, images: Tensor) -> Tensor:
        """The first of the examples, whose places suffice."""
        return images[: self._examples]

    @property
    def _weight(self) -> Tensor:
        return self.matrix.T.reshape(-1, sum(self._channels), *self._kernel)

    def foreseen(self, changes: Sequence[Tensor]) -> Tensor:
        form = self._geometry
        return F.conv2d(torch.cat(list(changes), 1), self._weight, None, form.stride, form.padding, form.dilation)

    def derivatives(self, derivative: Tensor) -> list[Tensor]:
        form, size = self._geometry, (len(derivative), sum(self._channels), *self._image)
        made = conv2d_input(size, self._weight, derivative, form.stride, form.padding, form.dilation)
        return list(made.split(self._channels, 1))


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
