"""Layer that multiplies signals by gains."""

from torch import Tensor, nn


class Gain(nn.Module):
    """Product of the first half of (B, 2 A), signals a, with their gains 1 + b / 2, b the second half."""

    def forward(self, x: Tensor) -> Tensor:
        signal, gain = x.unflatten(1, (2, -1)).unbind(1)  # an odd number of values is an error
        return signal * (1 + gain / 2)
