"""Spiking network of leaky integrate-and-fire neurons, with a pixel's brightness encoded as a rate of spikes.

At each step a neuron's potential decays and adds the current from its inputs' spikes. A neuron that reaches the threshold
spikes, and its potential drops by the threshold. A spike has no slope, and no surrogate gradient is used: only the last layer,
which reads mean rates, has a gradient.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError
from neuro_cli.model.shapes import checked_pool, checked_shape, checked_widths, square_sums

GOLDEN = (math.sqrt(5) - 1) / 2  # the fractional parts of its multiples are spread evenly over [0, 1)


class SpikingMLP(nn.Module):
    """Images (B, *input_shape) to logits (B, outputs). Legend: T = ``steps``, n neurons of a layer.

    ``hidden``: neurons of each layer; ``decay``: share of a potential that remains after a step, in [0, 1]; ``threshold``: > 0;
    ``pool``: side of the squares of pixels whose means are the inputs.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden: Sequence[int],
        steps: int,
        decay: float,
        threshold: float,
        pool: int = 1,
        outputs: int = 10,
    ) -> None:
        super().__init__()
        self.input_shape = checked_shape(input_shape)
        self.pool = checked_pool(pool, self.input_shape)
        self.steps = integer("model.steps", steps, 1)
        self.decay = number("model.decay", decay, low=0.0, high=1.0)
        self.threshold = number("model.threshold", threshold, above=0.0)
        widths = checked_widths(hidden)
        if not widths:
            raise ConfigError("model.hidden", hidden, "at least one layer of neurons is needed")
        channels, height, width = self.input_shape
        sizes = [channels * (height // pool) * (width // pool), *widths]
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))
        self.readout = nn.Linear(sizes[-1], integer("model.outputs", outputs, 1))
        for layer in (*self.layers, self.readout):
            nn.init.normal_(layer.weight, std=math.sqrt(2 / layer.in_features))
            nn.init.zeros_(layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        spikes = rate_coded(brightness(square_sums(images, self.pool).flatten(1)), self.steps)
        for layer in self.layers:
            spikes = self._fired(layer(spikes))
        logits: Tensor = self.readout(spikes.mean(1))
        return logits

    def _fired(self, currents: Tensor) -> Tensor:
        """Return the spikes (B, T, n) of neurons that begin at rest, from their ``currents`` (B, T, n).

        The last spike is NaN where a current was not finite: such a neuron would be silent, and hide that the network diverged.
        """
        potential, fired = torch.zeros_like(currents[:, 0]), []
        for current in currents.unbind(1):
            potential = potential * self.decay + current
            fired.append((potential >= self.threshold).to(potential.dtype))
            potential = potential - self.threshold * fired[-1]
        fired[-1] = fired[-1] + 0 * potential.detach()
        return torch.stack(fired, 1)


def brightness(pixels: Tensor) -> Tensor:
    """Scale (B, n) to 0 for an image's darkest pixel and 1 for its brightest; 0 if all are alike."""
    low, high = pixels.amin(1, keepdim=True), pixels.amax(1, keepdim=True)
    return (pixels - low) / (high - low).clamp(min=1e-6)


def rate_coded(rates: Tensor, steps: int) -> Tensor:
    """Return spikes (B, T, n) of ``rates`` (B, n) in [0, 1]: about T times the rate of them, evenly spaced, without chance.

    Pixel i starts its count at the fractional part of i * GOLDEN, so that equal pixels do not spike together.
    """
    exact = torch.promote_types(rates.dtype, torch.float32)  # bfloat16 has too few bits to count in
    phases = (torch.arange(rates.shape[1], device=rates.device, dtype=torch.float64) * GOLDEN % 1.0).to(exact)
    times = torch.arange(steps + 1, device=rates.device, dtype=exact)
    counts = (rates[:, None] * times[:, None] + phases).floor()
    return (counts[:, 1:] - counts[:, :-1]).to(rates.dtype)
