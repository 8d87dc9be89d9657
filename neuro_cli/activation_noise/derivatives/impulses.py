"""Images with single impulses, whose responses hold every number of a convolution's kernel."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from neuro_cli.core.rows import Geometry


class Line(NamedTuple):
    """Impulses at ``places`` along an axis, too far apart for an output to see two; each meets these ``taps`` of the kernel."""

    places: list[int]
    taps: list[int]


class Impulses:
    """Impulses for a convolution, or a ``transposed`` one, of ``image`` (channels, *axes), groups by themselves.

    ``sides``: axes of the outputs. ``entries``: number of images. Column j of ``places`` (entry, channel, *axes) is where impulse
    j is. Column k of ``seen`` (entry, *axes of an output) has the kernel's number ``tap`` for all outputs of a group; taps are in
    the order (channel, *axes of the kernel).
    """

    def __init__(
        self, kernel: Sequence[int], geometry: Geometry, image: Sequence[int], sides: Sequence[int], groups: int, transposed: bool
    ) -> None:
        steps, pads, gaps, kinds = geometry.stride, geometry.padding, geometry.dilation, [transposed] * len(kernel)
        axes = [_Axis(*numbers) for numbers in zip(image[1:], kernel, steps, pads, gaps, sides, kinds, strict=True)]
        channels, self.entries = image[0] // groups, 0
        impulses, seen, taps = [], [], []
        for lines in product(*(axis.lines() for axis in axes)):
            spots = list(product(*(line.places for line in lines)))
            for channel in range(channels):
                entry, spot = self.entries + channel // len(spots), spots[channel % len(spots)]
                impulses += [(entry, group * channels + channel, *spot) for group in range(groups)]
                for tap in product(*(line.taps for line in lines)):
                    seen.append((entry, *(axis.output(at, one) for axis, at, one in zip(axes, spot, tap, strict=True))))
                    number = channel
                    for one, size in zip(tap, kernel, strict=True):
                        number = number * size + one
                    taps.append(number)
            self.entries += -(-channels // len(spots))
        self.places = torch.tensor(impulses).view(-1, 2 + len(axes)).T
        self.seen, self.tap = torch.tensor(seen).view(-1, 1 + len(axes)).T, torch.tensor(taps)

    def images(self, image: Sequence[int], size: float) -> Tensor:
        """Return the images (entries, channels, *axes) float32 with impulses of this ``size``."""
        made = torch.zeros(self.entries, *image)
        made[tuple(self.places)] = size
        return made


class _Axis(NamedTuple):
    """An axis of an image: its ``size``, the kernel's ``taps``, stride, padding and dilation, and the ``outputs`` along it."""

    size: int
    taps: int
    step: int
    pad: int
    gap: int
    outputs: int
    transposed: bool

    def output(self, place: int, tap: int) -> int | None:
        """Return where the impulse at ``place`` meets a tap, None for nowhere."""
        if self.transposed:
            end = place * self.step - self.pad + tap * self.gap
        else:
            end, rest = divmod(place + self.pad - tap * self.gap, self.step)
            if rest:
                return None
        return end if 0 <= end < self.outputs else None

    def lines(self) -> list[Line]:
        """Return lines of places that meet all taps, most of them first."""
        meets = [{tap for tap in range(self.taps) if self.output(place, tap) is not None} for place in range(self.size)]
        reach = self.gap * (self.taps - 1) + 1
        apart = -(-reach // self.step) * (1 if self.transposed else self.step)
        left, lines = set(range(self.taps)), list[Line]()
        while left:
            best = max(range(self.size), key=lambda place: len(left & meets[place]))
            new = left & meets[best]
            if not new:
                break  # taps that meet padding alone
            lines.append(Line([place for place in range(best % apart, self.size, apart) if new <= meets[place]], sorted(new)))
            left -= new
        return lines
