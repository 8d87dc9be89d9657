"""Convolutions of 5x5 with the pooling and ReLU behind them in one pass on a CPU (:mod:`neuro_cli.core.kernels.winograd`).

In a copy of a module, ``nn.Conv2d``, ``nn.MaxPool2d`` and ``nn.ReLU`` in a row in an ``nn.Sequential`` become one
:class:`PooledConvolution` with the same parameters under the same names. Outputs differ from torch's by rounding.
"""

import copy
import math
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from neuro_cli.core.kernels.compiled import winograd_kernels as kernels
from neuro_cli.core.machine.processor import supported
from neuro_cli.scoring.operators import numbers

# products of all directions in a generation: fewer are done before the compiled loops are loaded, which takes a second or two
ENOUGH = 5e9
TOLERANCE = 1e-3  # of an output against torch's, of itself and of the largest


class PooledConvolution(nn.Conv2d):
    """ReLU of the largest of each 2x2 window of a 5x5 convolution, images (B, C, H, W) to (B, O, H // 2, W // 2)."""

    compiled: bool  # else by torch, with which the compiled loops are compared first
    products: int  # of one example, once there was one

    @classmethod
    def of(cls, convolution: nn.Conv2d) -> "PooledConvolution":
        """The layer with the parameters and attributes of ``convolution``."""
        made = copy.copy(convolution)
        made.__class__ = cls
        assert isinstance(made, cls)
        made.compiled, made.products = False, 0
        return made

    def forward(self, images: Tensor) -> Tensor:
        images = images.to(self.weight.dtype)  # a batch of rounded inputs, which are numbers of float32 too
        if not self.compiled or torch.is_grad_enabled():
            self.products = images[0].numel() * self.weight[:, 0].numel()
            return F.relu(F.max_pool2d(super().forward(images), 2))
        count, channels, height, width = images.shape
        weight, outputs = self.weight.detach().float(), len(self.weight)
        bias = torch.zeros(outputs, dtype=torch.float32) if self.bias is None else self.bias.detach().float()
        made = torch.empty(count, height // 2, width // 2, outputs, dtype=torch.float32)
        if channels == 1:
            taps = weight.reshape(outputs, -1).t().contiguous()
            plane = images[:, 0].float().contiguous()
            kernels.convolved_directly(plane.numpy(), taps.numpy(), bias.numpy(), made.numpy())
        else:
            pixels = images.permute(0, 2, 3, 1).float().contiguous()
            kernels.convolved(pixels.numpy(), _filters(weight).numpy(), bias.numpy(), made.numpy())
        return made.permute(0, 3, 1, 2).to(images.dtype)


def _filters(weight: Tensor) -> Tensor:
    """The points of the filters (O, C, 5, 5), as (POINTS**2, O / PAIR, C, PAIR)."""
    outputs, channels = weight.shape[:2]
    line = torch.from_numpy(kernels.FILTER)
    plane = torch.kron(line, line)
    taps = weight.permute(2, 3, 0, 1).reshape(-1, outputs // kernels.PAIR, kernels.PAIR, channels).transpose(2, 3)
    return torch.mm(plane, taps.reshape(len(plane[0]), -1)).view(len(plane), -1, channels, kernels.PAIR)


def pool_convolutions(module: nn.Module) -> list[PooledConvolution]:
    """Put a :class:`PooledConvolution` in place of the layers that it can stand for; returns those put."""
    put = []
    for sequence in [part for part in module.modules() if type(part) is nn.Sequential]:
        for place in range(len(sequence) - 2):
            convolution, *others = sequence[place : place + 3]
            if _fits(convolution) and sorted(type(part).__name__ for part in others) == ["MaxPool2d", "ReLU"]:
                if not all(_plain(part) for part in (convolution, *others)):
                    continue
                put.append(PooledConvolution.of(convolution))
                sequence[place], sequence[place + 1], sequence[place + 2] = put[-1], nn.Identity(), nn.Identity()
    return put


def _fits(part: nn.Module) -> TypeGuard[nn.Conv2d]:
    return (
        type(part) is nn.Conv2d
        and (part.kernel_size, part.stride, part.dilation, part.groups) == ((5, 5), (1, 1), (1, 1), 1)
        and part.padding in ((2, 2), "same")
        and part.padding_mode == "zeros"
        and (part.in_channels == 1 or part.in_channels % 16 == 0)
        and part.out_channels % 32 == 0
    )


def _plain(part: nn.Module) -> bool:
    """True for a layer of torch without hooks; of pooling, for one of 2x2 windows that do not overlap."""
    if part._forward_hooks or part._forward_pre_hooks or type(part).__module__.partition(".")[0] != "torch":
        return False
    if not isinstance(part, nn.MaxPool2d):
        return True
    sizes = [numbers(value, 2) for value in (part.kernel_size, part.stride, part.padding, part.dilation)]
    return sizes == [(2, 2), (2, 2), (0, 0), (1, 1)] and not (part.ceil_mode or part.return_indices)


def pooled_alike(module: nn.Module, inputs: Tensor, examples: int, precision: torch.dtype) -> bool:
    """Tell whether the layers put into ``module`` are to score it: all its convolutions, work enough, and the same outputs.

    A property of model, batch, population and kind of processor, not of a clock. ``examples``: of all directions.
    """
    convolutions = [part for part in module.modules() if isinstance(part, _ConvNd)]
    parts = [part for part in convolutions if isinstance(part, PooledConvolution)]
    if not parts or len(parts) < len(convolutions):
        return False
    if precision != torch.float32 and supported("amx_tile"):
        return False  # half precision has eight times the products there
    with torch.no_grad():
        for part in parts:
            part.compiled = False
        plain = module(inputs)
        if sum(part.products for part in parts) * examples < ENOUGH or not kernels.AVAILABLE:
            return False
        for part in parts:
            part.compiled = True
        pooled = module(inputs)
    largest = float(plain.abs().max())
    return math.isfinite(largest) and bool(torch.allclose(plain, pooled, rtol=TOLERANCE, atol=TOLERANCE * largest))
