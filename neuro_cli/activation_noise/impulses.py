"""Images with single impulses, whose responses hold every number of a convolution's kernel."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from neuro_cli.core.rows import Geometry, out_sizes


class Line(NamedTuple):
    """Impulses at ``places`` along an axis, too far apart for an output to see two; each meets these ``taps`` of the kernel."""

    places: list[int]
    taps: list[int]


class Impulses:
    """Impulses for a convolution with ``kernel`` and ``geometry`` of ``image`` (channels, height, width), groups by themselves.

    ``entries``: number of images. Element j of ``entry``, ``channel``, ``row`` and ``column`` is where impulse j is.
    Element k of ``seen`` (entry, row, column of an output) has the kernel's number ``tap`` for all outputs of a group, in the
    order (channel, kernel height, kernel width).
    """

    def __init__(self, kernel: Sequence[int], geometry: Geometry, image: Sequence[int], groups: int) -> None:
        lines = [
            _lines(*sides)
            for sides in zip(
                image[1:], kernel, geometry.stride, geometry.padding, geometry.dilation,
                out_sizes(image[1:], kernel, geometry), strict=True,
            )
        ]  # fmt: skip
        channels, self.entries = image[0] // groups, 0
        impulses, seen, taps = [], [], []
        for down, right in product(*lines):
            spots = list(product(down.places, right.places))
            for channel in range(channels):
                entry, (row, column) = self.entries + channel // len(spots), spots[channel % len(spots)]
                impulses += [(entry, group * channels + channel, row, column) for group in range(groups)]
                for tap in product(down.taps, right.taps):
                    place = [
                        (at + pad - one * gap) // step
                        for at, pad, one, gap, step in zip(
                            (row, column), geometry.padding, tap, geometry.dilation, geometry.stride, strict=True
                        )
                    ]
                    seen.append((entry, *place))
                    taps.append((channel * kernel[0] + tap[0]) * kernel[1] + tap[1])
            self.entries += -(-channels // len(spots))
        self.entry, self.channel, self.row, self.column = torch.tensor(impulses).view(-1, 4).T
        self.seen, self.tap = torch.tensor(seen).view(-1, 3).T, torch.tensor(taps)

    def images(self, image: Sequence[int], size: float) -> Tensor:
        """Return the images (entries, channels, height, width) float32 with impulses of this ``size``."""
        made = torch.zeros(self.entries, *image)
        made[self.entry, self.channel, self.row, self.column] = size
        return made


def _lines(size: int, taps: int, step: int, pad: int, gap: int, outputs: int) -> list[Line]:
    """Return lines of places in [0, size) that meet all ``taps`` of an axis, most of them first."""
    meets = []
    for place in range(size):
        ends = [(place + pad - tap * gap, tap) for tap in range(taps)]
        meets.append([tap for end, tap in ends if end % step == 0 and 0 <= end // step < outputs])
    apart, left, lines = -(-(gap * (taps - 1) + 1) // step) * step, set(range(taps)), []
    while left:
        best = max(range(size), key=lambda place: len(left & set(meets[place])))
        new = left & set(meets[best])
        if not new:
            break  # taps that meet padding alone
        places = [place for place in range(best % apart, size, apart) if new <= set(meets[place])]
        lines.append(Line(places, sorted(new)))
        left -= new
    return lines
