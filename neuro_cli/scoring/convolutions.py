"""Convolutions of single members with fewer products on a CPU (:mod:`neuro_cli.core.kernels.winograd`).

In a copy of a module, layers of type ``nn.Conv1d`` and ``nn.Conv2d`` become :class:`Lines` and :class:`Images` with the same
parameters under the same names. Such a layer counts the work of both ways, by shapes alone, and takes the compiled loops where
that is clearly less. Outcomes differ from torch's by rounding.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch.nn.modules.conv import _ConvNd

from neuro_cli.core.kernels.compiled import winograd_kernels as kernels
from neuro_cli.core.rows import Geometry, out_sizes
from neuro_cli.scoring.base import ScoringSettings
from neuro_cli.scoring.candidate import brief
from neuro_cli.scoring.passes.operators import geometry_of, lifted
from neuro_cli.scoring.passes.outputs import alike
from neuro_cli.scoring.tolerance import tolerance

log = logging.getLogger(__name__)

TAPS = 7  # most that the compiled loops take
SPREAD, FILTER = 6, 1000  # products that take as long as to spread or gather one number, and a filter
WORTH = 0.7  # most work of that of torch's way
GAIN = 0.15  # least share of a network's products that is saved
ENOUGH = 1e10  # products of a generation: fewer are done before the compiled loops are loaded, which takes a second or two
TRIED = 16  # examples of the trial


@dataclass(frozen=True)
class Layer:
    """Convolution of ``examples`` images or lines of ``size`` each, with a weight of ``shape``."""

    size: torch.Size
    shape: torch.Size
    geometry: Geometry
    examples: int

    @property
    def out(self) -> tuple[int, int]:
        """Height and width of an outcome."""
        height, width = out_sizes((1, *self.size)[-2:], self.taps, self.geometry)
        return height, width

    @property
    def taps(self) -> tuple[int, int]:
        """Taps of a column and of a line."""
        height, width = (1, *self.shape[2:])[-2:]
        return height, width

    @property
    def products(self) -> int:
        """Products of an example by torch's way."""
        return math.prod(self.out) * self.shape.numel()

    @property
    def work(self) -> float:
        """Work of the compiled loops on an example, in products."""
        points, tiles = 1, 1
        for pixels, count in zip(self.out, self.taps, strict=True):
            points *= kernels.points(count)
            tiles *= -(-pixels // kernels.SIDES[count])
        groups = self.geometry.groups
        outputs, inputs = self.shape[0] // groups, self.shape[1]
        vectors = sum(-(-channels // kernels.LANES) * kernels.LANES for channels in (inputs, outputs))
        sums = inputs * -(-outputs // kernels.PAIR) * kernels.PAIR
        return groups * (points * tiles * (sums + SPREAD * vectors) + FILTER * inputs * outputs / self.examples)

    @property
    def pays(self) -> bool:
        """Return whether the compiled loops have clearly less work than torch."""
        return self.work < WORTH * self.products


class _Convolution(_ConvNd):
    """Convolution by the compiled loops where these have less work. ``examples``: number for one member."""

    examples: int

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        geometry = geometry_of(weight, self.stride, self.padding, self.dilation, self.groups)
        if self._taken(input, weight) and Layer(input.shape[2:], weight.shape, geometry, self.examples).pays:
            return convolved(input, weight, bias, geometry)
        return super()._conv_forward(input, weight, bias)

    def _taken(self, input: Tensor, weight: Tensor) -> bool:
        """Return whether the loops may have the tensors: plain ones that no function of torch follows."""
        plain = all(x.dtype == torch.float32 and x.layout == torch.strided and x.is_cpu for x in (input, weight))
        followed = torch.is_grad_enabled() or any(_functorch.is_functorch_wrapped_tensor(x) for x in (input, weight))
        fits = input.dim() == weight.dim() and input.shape[1] == weight.shape[1] * self.groups
        return plain and fits and not followed and not torch.compiler.is_compiling()


class Lines(_Convolution, nn.Conv1d):
    """Convolution of lines (B, C, L)."""


class Images(_Convolution, nn.Conv2d):
    """Convolution of images (B, C, H, W)."""


KINDS: dict[type[nn.Module], type[_Convolution]] = {nn.Conv1d: Lines, nn.Conv2d: Images}


def _fits(part: nn.Module) -> bool:
    """Return whether the compiled loops take a layer on images large enough."""
    if not isinstance(part, _ConvNd) or type(part) not in KINDS or part.padding_mode != "zeros":
        return False
    uneven = part.padding == "same" and any(taps % 2 == 0 for taps in part.kernel_size)
    ones = {*part.stride, *part.dilation} == {1}
    return ones and not uneven and 1 < max(part.kernel_size) <= TAPS


def put_convolutions(module: nn.Module, examples: int) -> None:
    """Change layers of ``module`` that the compiled loops may take, of a member with so many ``examples``."""
    for part in module.modules():
        if _fits(part):
            part.__class__ = KINDS[type(part)]
            vars(part)["examples"] = examples


def convolved(input: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """Return the convolution of lines or images by the compiled loops, in the memory order of the input.

    The weight's order decides where the input's is ambiguous, as with images of one channel.
    """
    images, outputs = lifted(input), len(weight) // geometry.groups
    pixels = images.permute(0, 2, 3, 1)
    last = pixels.is_contiguous() and not (images.is_contiguous() and weight.is_contiguous())
    layer = Layer(input.shape[2:], weight.shape, geometry, len(input))
    made = torch.empty(len(images), *layer.out, len(weight), dtype=torch.float32)
    lines, columns = ((0,) * count for count in layer.taps)
    for group in range(geometry.groups):
        part = slice(group * outputs, (group + 1) * outputs)
        shift = torch.zeros(-(-outputs // kernels.PAIR) * kernels.PAIR, dtype=torch.float32)
        if bias is not None:
            shift[:outputs] = bias[part]
        kernels.convolved(
            pixels.contiguous().numpy(), filters(lifted(weight)[part]).numpy(), shift.numpy(), geometry.padding, lines, columns,
            group, made.numpy(),
        )  # fmt: skip
    result = made.permute(0, 3, 1, 2)
    result = result if last else result.contiguous()
    return result.squeeze(2) if input.dim() == 3 else result


def filters(weight: Tensor) -> Tensor:
    """Return Winograd's points of filters (O, C, h, w), as (points, pairs, C, PAIR)."""
    outputs, channels, *taps = weight.shape
    plane = _plane(*taps)
    pairs = -(-outputs // kernels.PAIR)
    room = weight.new_zeros(*taps, pairs * kernels.PAIR, channels)
    room[:, :, :outputs] = weight.permute(2, 3, 0, 1)
    ordered = room.view(-1, pairs, kernels.PAIR, channels).transpose(2, 3)
    return torch.mm(plane, ordered.reshape(len(ordered), -1)).view(len(plane), pairs, channels, kernels.PAIR)


@cache
def _plane(high: int, wide: int) -> Tensor:
    """Return what a filter of ``high`` x ``wide`` taps is multiplied by, (points, taps); numpy's polynomials take 0.6 ms."""
    return torch.kron(*(torch.from_numpy(kernels.filter_lines(count)) for count in (high, wide)))


def saves_products(settings: ScoringSettings, centre: Tensor) -> bool:
    """Return whether compiled convolutions are to score the members, tried on a few examples.

    A property of model, batch, population and kind of processor, not of a clock: all ranks choose alike.
    """
    if not any(map(_fits, settings.module.modules())):  # most networks: their weights need no copy
        return False
    plain, inputs = settings.module_at(centre), settings.few(TRIED).inputs
    seen: list[tuple[bool, Layer]] = []

    def see(part: Any, given: tuple[Tensor, ...], _: Tensor) -> None:
        geometry = geometry_of(part.weight, part.stride, part.padding, part.dilation, part.groups)
        seen.append((_fits(part), Layer(given[0].shape[2:], part.weight.shape, geometry, settings.examples)))

    for part in plain.modules():
        if type(part) in KINDS:
            part.register_forward_hook(see)
    try:
        with torch.no_grad():
            wanted = plain(inputs)
            if not _enough(settings, seen):
                return False
            candidate = settings.candidate(change=partial(put_convolutions, examples=settings.examples))
            candidate.flat.copy_(centre)
            made = candidate.ready()(inputs)
    except Exception as error:  # any kind: a closure's module never gets these inputs
        log.info("convolutions with fewer products are not for this model: %s", brief(error))
        return False
    return alike(made, wanted, tolerance(torch.float32))


def _enough(settings: ScoringSettings, seen: Sequence[tuple[bool, Layer]]) -> bool:
    """Return whether the convolutions ``seen`` have so many products that the loops are worth loading, and fewer by these."""
    every = sum(layer.products for _, layer in seen)
    if every * settings.examples * settings.sampler.directions < ENOUGH or not kernels.AVAILABLE:
        return False
    return sum(layer.products - layer.work for fits, layer in seen if fits and layer.pays) > GAIN * every
