"""Independent noise per weight and example, stored in memory on a CPU: the paper's algorithms 2 (IID) and 3 (antithetic).

A training never holds it: there the members are scored one by one. Noise of all examples would be gigabytes, so a case runs on as
many examples as 256 MiB of float32 noise allow.

Legend: D directions of noise, M weights.
"""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.bench.layer.methods import SIGMA, Method, by_direction
from neuro_cli.bench.layer.subject import Subject, weights_of
from neuro_cli.scoring.chunk_size import dense_directions

LAYERS = (nn.Linear, nn.Conv2d)  # run with many weights at once; networks run one example after the other


class StoredNoise(Method):
    """Noise in memory, (D, M): by algorithm 2 perturbed weights, by algorithm 3 the noise of pairs."""

    def __init__(self, subject: Subject, node: Any) -> None:
        self._subject, case = subject, subject.case
        pair = subject.sampler(node, 2).antithetic
        directions = min(case.examples // (1 + pair), dense_directions(subject.layout.size, subject.device))
        self.examples = directions * (1 + pair)
        self._sampler, self._pair = subject.sampler(node, self.examples), pair
        count = subject.threads.count
        cuts = [directions * part // count for part in range(count + 1)]
        self._parts = [bounds for bounds in pairwise(cuts) if bounds[0] < bounds[1]]
        self._noise = torch.empty(directions, subject.layout.size, dtype=subject.precision)
        self._base = torch.zeros_like(subject.centre) if pair else subject.centre
        self._weights = by_direction(weights_of(self.examples, subject.device, subject.precision), self._sampler)
        self._candidates = [] if isinstance(case.module, LAYERS) else [subject.candidate() for _ in self._parts]
        self.draw(0)

    def draw(self, number: int) -> None:
        scale = torch.tensor([SIGMA])

        def part(bounds: tuple[int, int]) -> None:
            scratch = torch.empty_like(self._base)
            for direction in range(*bounds):
                row = self._noise[direction]
                target = row if row.dtype == torch.float32 else scratch
                self._sampler.perturb(self._base, scale, number, direction, target, None)
                if target is scratch:
                    row.copy_(scratch)

        self._subject.map(part, self._parts)

    def forward(self, number: int) -> None:
        def part(place: int) -> None:
            deque(self.outputs(place), maxlen=0)

        self._subject.map(part, range(len(self._parts)))

    def outputs(self, place: int) -> Iterator[Tensor]:
        """Yield outputs for the examples of one thread's directions, in order, some at a time."""
        first, last = self._parts[place]
        each = 1 + self._pair
        length = max(1, self._subject.rows // each)
        for low in range(first, last, length):
            high = min(low + length, last)
            x, noise = self._subject.x[each * low : each * high], self._noise[low:high]
            if isinstance(self._subject.module, LAYERS):
                yield from self._layer(x, noise)
            else:
                yield from (row for i in range(high - low) for row in self._member(place, low + i, x[each * i : each * (i + 1)]))

    def _layer(self, x: Tensor, noise: Tensor) -> Iterator[Tensor]:
        """Yield outputs of a layer for rows of ``x``; in pairs two per row of ``noise``, with the noise added and subtracted."""
        module, (layer,) = self._subject.module, self._subject.layout.places
        if isinstance(module, nn.Linear):
            noisy = torch.bmm(x.view(len(noise), -1, x.shape[1]), noise.unflatten(1, layer.shape).transpose(1, 2))
            yield self._mirrored(module(x), noisy) if self._pair else noisy.flatten(0, 1)
            return
        assert isinstance(module, nn.Conv2d)
        noise_outputs = (
            F.conv2d(e, layer.view(row), padding=module.padding) for e, row in zip(x.split(1 + self._pair), noise, strict=True)
        )
        if not self._pair:
            yield from noise_outputs
            return
        plain = module(x)
        for both, noisy in zip(plain.split(2), noise_outputs, strict=True):
            self._mirrored(both, noisy[None])
        yield plain

    def _mirrored(self, plain: Tensor, noisy: Tensor) -> Tensor:
        """Add the noise (D, 2, ..) of pairs to ``plain`` (2 D, ..) with the sign of each side, in place."""
        plain[0::2] += noisy[:, 0]
        plain[1::2] -= noisy[:, 1]
        return plain

    def _member(self, place: int, direction: int, x: Tensor) -> list[Tensor]:
        """Return outputs of a network with the weights of a direction, one side for each row of ``x``."""
        candidate = self._candidates[place]
        outputs = []
        for row, sign in zip(x.split(1), (1, -1), strict=False):
            if self._pair:
                torch.add(self._subject.centre, self._noise[direction], alpha=sign, out=candidate.flat)
            else:
                candidate.flat.copy_(self._noise[direction])
            outputs.append(candidate.ready()(row))
        return outputs

    def update(self, number: int) -> Tensor:
        subject, size = self._subject, self._subject.layout.size
        total = torch.empty(size, dtype=subject.precision)
        count = subject.threads.count
        cuts = [size * part // count for part in range(count + 1)]

        def columns(bounds: tuple[int, int]) -> None:
            part = slice(*bounds)
            torch.mv(self._noise[:, part].T, self._weights, out=total[part])
            if not self._pair:  # stored are weights with their noise
                total[part] -= self._weights.sum() * self._base[part]

        subject.map(columns, list(pairwise(cuts)))
        return total
