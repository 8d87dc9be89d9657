"""Way to perturb every example: noise is drawn and stored, a forward pass runs with it, and it is summed by weights.

By the library's shared forward pass, as in a training.
"""

import logging
import queue
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.bench.layer.subject import Subject
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.block_sums import BlockSums
from neuro_cli.scoring.candidate import UNSUPPORTED, brief
from neuro_cli.scoring.chunk_size import dense_directions
from neuro_cli.scoring.passes.mapped import MappedForward
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.perturbed import PerturbedForward

log = logging.getLogger(__name__)
SIGMA = 0.01
STORED = 2**26  # most numbers of dense noise on a CPU, 256 MiB


class SharedPass:
    """Members in one forward pass per chunk of examples: one direction per example, or per pair of examples.

    Steps take the number of the round. ``examples``: all of the case; of dense noise on a CPU as many as ``STORED`` allows.
    """

    def __init__(self, subject: Subject, node: Any) -> None:
        self._subject, case = subject, subject.case
        probe = subject.sampler(node, 2)
        self._scales = [SIGMA, -SIGMA] if probe.antithetic else [SIGMA]
        directions, length = case.examples // len(self._scales), max(1, subject.rows // len(self._scales))
        if not probe.reuses_noise:
            length = min(length, dense_directions(subject.layout.size, subject.device))
            if subject.device.type == "cpu":
                directions = min(directions, max(1, STORED // subject.layout.size))
        self.examples = directions * len(self._scales)
        # two samplers, since drawing in every round would overwrite the noise that the passes use
        self._sampler, self._drawing = (subject.sampler(node, self.examples) for _ in range(2))
        period = self._sampler.noise_period
        if period is not None:  # one matrix of noise per chunk
            length = max(divisor for divisor in range(1, min(length, period) + 1) if period % divisor == 0)
        self._bounds = [(low, min(low + length, directions)) for low in range(0, directions, length)]
        self._inputs = [self._rows(low, high) for low, high in self._bounds]
        self._stored: list[Any] = [None] * len(self._bounds)
        self._fill(self._sampler, 0, self._stored)
        # one module per thread: a pass replaces the module's forward function
        self._modules: queue.SimpleQueue[nn.Module] = queue.SimpleQueue()
        self._modules.put(subject.module)
        self._pass = self._serving_pass()
        for _ in range(1, subject.threads.count):
            self._modules.put(subject.copy())
        self._weights = torch.randn(self.examples, generator=torch.Generator().manual_seed(2)).double()  # (P,) of an update
        if isinstance(self._sampler, BlockSums):
            # an update reads other lists of factors than a forward pass, so they are cached apart
            self._sampler.factors = cache(self._sampler.factors)  # type: ignore[method-assign]

    def _rows(self, low: int, high: int) -> Tensor:
        """Return inputs of directions [low, high): an example for each of their sides."""
        x, directions = self._subject.x, self._sampler.directions
        sides = [x[side * directions + low : side * directions + high] for side in range(len(self._scales))]
        return sides[0] if len(sides) == 1 else torch.cat(sides)

    def _fill(self, sampler: Sampler, number: int, chunks: list[Any]) -> None:
        """Put the noise of each chunk into ``chunks``."""
        sampler.prepare(number, range(sampler.directions))

        def chunk(place: int) -> None:
            low, high = self._bounds[place]
            rows = MemberBatch(self._scales, high - low, 1)
            chunks[place] = sampler.perturbation(number, low, rows, self._subject.precision)

        self._subject.map(chunk, range(len(chunks)))

    def draw(self, number: int) -> None:
        """Draw noise for all examples of the layer."""
        self._fill(self._drawing, number, [None] * len(self._bounds))

    def forward(self, number: int) -> None:
        """Run the examples with the stored noise, each with its own."""

        def chunk(place: int) -> None:
            self.outputs(self._pass, place)

        self._subject.map(chunk, range(len(self._bounds)))

    def outputs(self, forward: type[PerturbedForward | MappedForward], place: int) -> Tensor:
        """Return outputs of a chunk by the pass ``forward``. Raises Unsupported where that does not serve the module."""
        module = self._modules.get()
        try:
            with forward(module, self._subject.layout, self._stored[place]):
                outputs: Tensor = module(self._inputs[place])
        finally:
            self._modules.put(module)
        return outputs

    def _serving_pass(self) -> type[PerturbedForward | MappedForward]:
        """Return the faster pass that serves the module, as a training chooses it."""
        try:
            with torch.no_grad():
                self.outputs(PerturbedForward, 0)
        except (Unsupported, *UNSUPPORTED) as error:
            log.info("%s: by the mapped pass: %s", self._subject.case.name, brief(error))
            return MappedForward
        return PerturbedForward

    def update(self, number: int) -> Tensor:
        """Return the weighted sum (M,) of the stored noise."""
        subject, sampler = self._subject, self._sampler
        if sampler.reuses_noise:
            total = sampler.combine(self._weights[None].numpy(), (1,), 0, range(sampler.population), 0, subject.layout.size)[0]
        else:
            each = self._weights[0::2] - self._weights[1::2] if sampler.antithetic else self._weights
            weights = each.to(subject.device, subject.precision)  # (D,) of directions
            total = torch.zeros(subject.layout.size, device=subject.device)  # float32, since half precision would lose chunks
            for (low, high), noise in zip(self._bounds, self._stored, strict=True):
                for place in subject.layout.places:
                    total[place.start : place.stop] += weights[low:high] @ noise.vectors(place).flatten(1)
        subject.map(lambda _: None, ())
        return total
