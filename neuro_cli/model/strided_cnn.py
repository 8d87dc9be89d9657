"""Network of two strided convolutions and two linear layers for grey images, ours: few outputs per layer for its weights."""

from collections.abc import Sequence

from torch import Tensor, nn

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError


class StridedCNN(nn.Module):
    """Images (B, 1, 28, 28) to logits (B, outputs): two 5x5 convolutions of stride 2, a hidden layer, ReLU between.

    ``channels``: two numbers >= 1; ``hidden`` >= 1: width of the hidden layer. 37,610 parameters with 8, 16 and 128. Raises
    ConfigError.
    """

    input_shape = (1, 28, 28)

    def __init__(self, channels: Sequence[int] = (8, 16), hidden: int = 128, outputs: int = 10) -> None:
        super().__init__()
        integer("model.hidden", hidden, 1)
        integer("model.outputs", outputs, 1)
        if len(channels) != 2:
            raise ConfigError("model.channels", list(channels), "must be two numbers, of the two convolutions")
        first, second = (integer("model.channels", count, 1) for count in channels)
        self.layers = nn.Sequential(
            nn.Conv2d(1, first, 5, stride=2), nn.ReLU(),
            nn.Conv2d(first, second, 5, stride=2), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * 16, hidden), nn.ReLU(),
            nn.Linear(hidden, outputs),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)
