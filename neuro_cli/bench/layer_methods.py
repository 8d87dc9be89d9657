"""Ways to perturb every example: each draws noise and keeps it, runs a forward pass with it, and sums it by weights.

Samplers that reuse noise, and every sampler on a GPU, run as in a training, by the library's shared forward pass. On a CPU
noise of a number for each weight of each example is too large for memory, and a training never holds it: there the paper's
algorithms 2 (IID) and 3 (antithetic pairs) run on as many examples as 256 MiB of float32 noise allow.

Legend: n examples, D directions of noise, M weights.
"""

from abc import ABC, abstractmethod
from functools import cache
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.bench.layer_subject import Subject, weights_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import Perturbation, Sampler
from neuro_cli.sampler.block_sums import BlockSums
from neuro_cli.scoring.batched import dense_directions
from neuro_cli.scoring.perturbed import PerturbedForward

SIGMA = 0.01
LAYERS = (nn.Linear, nn.Conv2d)  # done for many weights at once; networks are scored one example after the other


class Method(ABC):
    """Noise of ``examples`` of the subject's examples, drawn and kept. The argument of its steps is the number of the round."""

    examples: int

    @abstractmethod
    def draw(self, number: int) -> None:
        """Draw noise for all examples."""

    @abstractmethod
    def forward(self, number: int) -> None:
        """Run the examples with the noise that is kept, each with its own."""

    @abstractmethod
    def update(self, number: int) -> Tensor:
        """The weighted sum (M,) of the noise that is kept."""


def method_of(subject: Subject, node: Any) -> Method:
    """Method of the sampler that the config's ``node`` describes. Raises UserError."""
    sampler = subject.sampler(node, 2)
    if sampler.antithetic and subject.case.examples % 2:
        raise ConfigError(
            "layer", subject.case.examples, f"{subject.case.name}: antithetic pairs need an even number of examples"
        )
    shared = sampler.reuses_noise or subject.device.type != "cpu"
    return SharedPass(subject, node) if shared else HeldNoise(subject, node)


class SharedPass(Method):
    """Members in one forward pass for each chunk of examples, as in a training, a direction an example or a pair of them."""

    def __init__(self, subject: Subject, node: Any) -> None:
        self._subject, self.examples = subject, subject.case.examples
        # one of them draws in every round, and would forget what the other one keeps
        self._sampler, self._drawing = (subject.sampler(node, self.examples) for _ in range(2))
        self._scales = [SIGMA, -SIGMA] if self._sampler.antithetic else [SIGMA]
        length = max(1, subject.rows // len(self._scales))
        if not self._sampler.reuses_noise:
            length = min(length, dense_directions(subject.layout.size, subject.device))
        period = self._sampler.noise_period
        if period is not None:  # a chunk has one matrix of noise
            length = max(divisor for divisor in range(1, min(length, period) + 1) if period % divisor == 0)
        directions = self._sampler.directions
        self._bounds = [(low, min(low + length, directions)) for low in range(0, directions, length)]
        self._inputs = [self._rows(low, high) for low, high in self._bounds]
        self._kept: list[Any] = [None] * len(self._bounds)
        self._fill(self._sampler, 0, self._kept)
        self._weights = weights_of(self.examples, torch.device("cpu"), torch.float64)
        if isinstance(self._sampler, BlockSums):  # of the lists of an update, which are not those of a forward pass
            self._sampler.factors = cache(self._sampler.factors)  # type: ignore[method-assign]

    def _rows(self, low: int, high: int) -> Tensor:
        """Inputs of directions [low, high): an example for each of their sides."""
        x, directions = self._subject.x, self._sampler.directions
        sides = [x[side * directions + low : side * directions + high] for side in range(len(self._scales))]
        return sides[0] if len(sides) == 1 else torch.cat(sides)

    def _fill(self, sampler: Sampler, number: int, kept: list[Any]) -> None:
        """Put the noise of each chunk into ``kept``."""
        sampler.prepare(number, range(sampler.directions))

        def chunk(place: int) -> None:
            low, high = self._bounds[place]
            rows = MemberBatch(self._scales, high - low, 1)
            kept[place] = sampler.perturbation(number, low, rows, self._subject.precision)

        self._subject.map(chunk, range(len(kept)))

    def draw(self, number: int) -> None:
        self._fill(self._drawing, number, [None] * len(self._bounds))

    def forward(self, number: int) -> None:
        subject = self._subject

        def chunk(place: int) -> None:
            with PerturbedForward(subject.module, subject.layout, self._kept[place]):
                subject.module(self._inputs[place])

        subject.map(chunk, range(len(self._bounds)))

    def update(self, number: int) -> Tensor:
        subject, sampler = self._subject, self._sampler
        if sampler.reuses_noise:
            made = sampler.combine(self._weights[None].numpy(), (1,), 0, range(sampler.population), 0, subject.layout.size)[0]
        else:
            weights = by_direction(self._weights, sampler).to(subject.device, subject.precision)
            made = torch.zeros(subject.layout.size, device=subject.device, dtype=subject.precision)
            for (low, high), noise in zip(self._bounds, self._kept, strict=True):
                self._add(made, weights[low:high], noise)
        subject.map(lambda _: None, ())
        return made

    def _add(self, made: Tensor, weights: Tensor, noise: Perturbation) -> None:
        for place in self._subject.layout.places:
            made[place.start : place.stop] += weights @ noise.vectors(place).flatten(1)


class HeldNoise(Method):
    """Noise in memory, (D, M): weights of their own by algorithm 2, the noise alone of pairs by algorithm 3."""

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
            whole = torch.empty_like(self._base)
            for direction in range(*bounds):
                row = self._noise[direction]
                target = row if row.dtype == torch.float32 else whole
                self._sampler.perturb(self._base, scale, number, direction, target, None)
                if target is whole:
                    row.copy_(whole)

        self._subject.map(part, self._parts)

    def forward(self, number: int) -> None:
        self._subject.map(self.outputs, range(len(self._parts)))

    def outputs(self, place: int) -> Any:
        """Outputs for the examples of one thread's directions."""
        low, high = self._parts[place]
        each = 1 + self._pair
        x, module = self._subject.x[each * low : each * high], self._subject.module
        if isinstance(module, nn.Linear):
            weights = self._noise[low:high].unflatten(1, module.weight.shape).transpose(1, 2)
            noisy = torch.bmm(x.view(high - low, each, -1), weights)
            return noisy if not self._pair else module(x) + self._mirrored(noisy)
        if isinstance(module, nn.Conv2d):
            (view,) = (place.view for place in self._subject.layout.places)
            split, padding = x.split(each), module.padding
            outputs = [F.conv2d(e, view(row), padding=padding) for e, row in zip(split, self._noise[low:high], strict=True)]
            return outputs if not self._pair else module(x) + self._mirrored(torch.stack(outputs))
        return [self._member(place, low + i, x[each * i : each * (i + 1)]) for i in range(high - low)]

    def _mirrored(self, noisy: Tensor) -> Tensor:
        """Noise (D, 2, ..) of pairs with the sign of each side, as rows (2 D, ..)."""
        noisy[:, 1].neg_()
        return noisy.flatten(0, 1)

    def _member(self, place: int, direction: int, x: Tensor) -> list[Tensor]:
        """Outputs of a network with the weights of a direction, of one side for each row of ``x``."""
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
        made = torch.empty(size, dtype=subject.precision)
        count = subject.threads.count
        cuts = [size * part // count for part in range(count + 1)]

        def columns(bounds: tuple[int, int]) -> None:
            part = slice(*bounds)
            torch.mv(self._noise[:, part].T, self._weights, out=made[part])
            if not self._pair:  # kept are the weights with their noise
                made[part] -= self._weights.sum() * self._base[part]

        subject.map(columns, list(pairwise(cuts)))
        return made


def by_direction(weights: Tensor, sampler: Sampler) -> Tensor:
    """Weights (D,) of directions from those of members (P,)."""
    return weights[0::2] - weights[1::2] if sampler.antithetic else weights
