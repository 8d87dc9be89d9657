"""Layers as the samplers' noise meets them: linear layers and convolutions, plain and transposed, without their bias.

A convolution over one dimension is done as one over two, of height 1: for two there are compiled loops.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.errors import UserError
from neuro_cli.core.rows import Geometry


class Unsupported(UserError):  # noqa: N818 (it is no error where another way serves)
    """The module uses a parameter in a way that is not done for many members at once."""


class LinearOperator:
    """A linear layer; ``transposed``: x W in place of x W^T. A weight of more dimensions has one tap."""

    geometry: Geometry | None = None
    channel = -1

    def __init__(self, transposed: bool = False) -> None:
        self.transposed = transposed

    def __call__(self, x: Tensor, weight: Tensor, groups: int | None = None) -> Tensor:
        matrix = weight.flatten(1)
        return x @ matrix if self.transposed else F.linear(x, matrix)


class ConvolutionOperator:
    """A convolution; with ``output_padding`` (zeros too) a transposed one."""

    channel = 1

    def __init__(self, geometry: Geometry, output_padding: tuple[int, ...] | None = None) -> None:
        self.geometry: Geometry | None = geometry
        self.transposed = output_padding is not None
        self._stride, self._padding, self._dilation = geometry.stride, geometry.padding, geometry.dilation
        self._groups, self._output_padding = geometry.groups, output_padding

    def __call__(self, x: Tensor, weight: Tensor, groups: int | None = None, bias: Tensor | None = None) -> Tensor:
        weight, groups = lifted(weight), groups or self._groups
        plane = weight.dim() == 4
        if self._output_padding is None:
            convolved = F.conv2d if plane else F.conv3d
            return convolved(x, weight, bias, self._stride, self._padding, self._dilation, groups)
        spread = F.conv_transpose2d if plane else F.conv_transpose3d
        return spread(x, weight, None, self._stride, self._padding, self._output_padding, groups, self._dilation)


def lifted(x: Tensor) -> Tensor:
    """Return lines (n, C, L), as images of height 1."""
    return x.unsqueeze(2) if x.dim() == 3 else x


def images_of(x: Tensor) -> Tensor:
    """Return lines, images or volumes as images or volumes, in the order in memory that row operations take."""
    if x.dim() == 4:
        return x
    # the order that compiled loops serve; volumes in the one order that all row operations take
    return lifted(x).contiguous(memory_format=torch.channels_last if x.dim() == 3 else torch.contiguous_format)


def geometry_of(weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int) -> Geometry:
    """Geometry of a convolution with ``weight``; over one dimension that of an image of height 1."""
    count = weight.dim() - 2
    gaps = numbers(dilation, count)
    steps, zeros = numbers(stride, count), _padding(padding, weight.shape[2:], gaps)
    if count == 1:
        return Geometry((1, *steps), (0, *zeros), (1, *gaps), groups)
    return Geometry(steps, zeros, gaps, groups)


def normalized(x: Tensor, dimensions: list[int], eps: float) -> Tensor:
    """Values less their mean over ``dimensions``, over their biased deviation, as batch norm has them."""
    if x.dtype not in (torch.float32, torch.float64):
        variance, mean = torch.var_mean(x, dimensions, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + eps)
    # two passes over memory take a tenth of the time of torch.var_mean; the sums of squares of half precision would lose digits
    centred = x - x.mean(dimensions, keepdim=True)
    return centred.mul_(torch.rsqrt(centred.square().mean(dimensions, keepdim=True) + eps))


def numbers(value: Any, count: int) -> tuple[int, ...]:
    """Return a number for each of ``count`` dimensions."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * count if len(given) == 1 else given


def _padding(padding: Any, kernel: Sequence[int], dilation: tuple[int, ...]) -> tuple[int, ...]:
    """Return zeros on either side. Raises Unsupported where ``same`` needs more of them on one side."""
    if not isinstance(padding, str):
        return numbers(padding, len(kernel))
    if padding == "valid":
        return (0,) * len(kernel)
    both = [gap * (taps - 1) for gap, taps in zip(dilation, kernel, strict=True)]
    if any(total % 2 for total in both):
        raise Unsupported("padding=same of an even kernel")
    return tuple(total // 2 for total in both)
