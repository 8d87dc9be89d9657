"""Convolutional network with three levels: every weight and every activation is -1, 0 or 1.

Evolution moves float32 parameters. A weight is the sign of its parameter, or 0 if that is near 0 (Li, Zhang, Liu 2016,
"Ternary weight networks"). Steps have no slope, so only the last layer's bias and factor have a gradient.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.model.shapes import checked_shape

THRESHOLD = 0.5  # deviations within which a weight or activation is 0: a normal number is, with a chance of 0.38
SHARE = 0.62  # share of levels that are not 0
IMAGE_BITS = 5  # pixels are taken as multiples of 2**-5, so that the sums of the first layer are exact too


def three_levels(x: Tensor, threshold: float) -> Tensor:
    """Return -1, 0 or 1 in the type of ``x``: its sign, or 0 within ``threshold`` of 0; NaN where it is not finite."""
    # rounds a half to the even number, 0. No clamp: noise on activations takes the derivative of each of these two steps as 1,
    # and a clamp's derivative of 0 would leave a weight far from 0 where it is
    levels = (x / (2 * threshold)).round()
    return levels.sign() + 0 * levels.detach()  # torch's sign of NaN is 0, which would hide a network that diverged


class TernaryConv2d(nn.Conv2d):
    """Convolution of stride 2 with weights of three levels, scaled by the initial deviation of its sums, plus a bias.

    ``share``: mean square of the inputs.
    """

    def __init__(self, inner: int, outer: int, kernel: int, share: float) -> None:
        super().__init__(inner, outer, kernel, stride=2)
        self.fan_in = inner * kernel**2
        self.factor = 1 / math.sqrt(self.fan_in * SHARE * share)
        _initialise(self, self.fan_in)

    def forward(self, x: Tensor) -> Tensor:
        levels = three_levels(self.weight, THRESHOLD / math.sqrt(self.fan_in))
        assert self.bias is not None
        return F.conv2d(x, levels, None, self.stride) * self.factor + self.bias.view(-1, 1, 1)


class TernaryLinear(nn.Linear):
    """Linear layer with weights and inputs of three levels, times a learned factor, plus a bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.factor = 1 / math.sqrt(inputs * SHARE**2)
        self.gain = nn.Parameter(torch.ones(1))
        _initialise(self, inputs)

    def forward(self, x: Tensor) -> Tensor:
        levels = three_levels(self.weight, THRESHOLD / math.sqrt(self.in_features))
        return F.linear(x, levels) * self.factor * self.gain + self.bias


def _initialise(layer: nn.Conv2d | nn.Linear, fan_in: int) -> None:
    """Draw normal weights of deviation 1 / sqrt(fan_in); set the bias to 0."""
    assert layer.bias is not None
    nn.init.normal_(layer.weight, std=1 / math.sqrt(fan_in))
    nn.init.zeros_(layer.bias)


class TernaryCNN(nn.Module):
    """Images (B, *input_shape) to logits (B, outputs): 5x5 convolutions of stride 2, and a linear layer.

    ``channels``: output channels of each convolution.
    """

    def __init__(self, input_shape: Sequence[int], channels: Sequence[int], outputs: int = 10) -> None:
        super().__init__()
        self.input_shape = checked_shape(input_shape)
        if isinstance(channels, str) or not isinstance(channels, Sequence) or not channels:
            raise ConfigError("model.channels", channels, "must be a list of numbers of channels, for example [16,32]")
        inner, *sides = self.input_shape
        convolutions, share = [], 1.0
        for outer in channels:
            convolutions.append(TernaryConv2d(inner, integer("model.channels", outer, 1), 5, share))
            inner, sides, share = outer, [(side - 5) // 2 + 1 for side in sides], SHARE
        if min(sides) < 1:
            raise ConfigError("model.channels", list(channels), f"the images are too small for {len(channels)} convolutions")
        self.convolutions = nn.ModuleList(convolutions)
        self.classifier = TernaryLinear(inner * sides[0] * sides[1], integer("model.outputs", outputs, 1))

    def forward(self, images: Tensor) -> Tensor:
        x = (images * 2**IMAGE_BITS).round() * 2**-IMAGE_BITS
        for convolution in self.convolutions:
            x = three_levels(convolution(x), THRESHOLD)
        logits: Tensor = self.classifier(x.flatten(1))
        return logits
