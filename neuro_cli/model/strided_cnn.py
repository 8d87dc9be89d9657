"""Network of two strided convolutions and two linear layers for images (ours), with few outputs per weight."""

from collections.abc import Sequence

from torch import Tensor, nn

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError

SIDE = 13  # smallest side of an image that both convolutions fit into, in pixels


class StridedCNN(nn.Module):
    """Images (B, *image) to logits (B, outputs): two 5x5 convolutions of stride 2, a hidden layer, ReLU between.

    ``channels``: two numbers >= 1; ``hidden`` >= 1: width of the hidden layer; ``image``: channels, height >= 13, width >= 13.
    37,610 parameters with 8, 16, 128 and grey images of 28 x 28. Raises ConfigError.
    """

    def __init__(
        self, channels: Sequence[int] = (8, 16), hidden: int = 128, outputs: int = 10, image: Sequence[int] = (1, 28, 28)
    ) -> None:
        super().__init__()
        integer("model.hidden", hidden, 1)
        integer("model.outputs", outputs, 1)
        if len(channels) != 2:
            raise ConfigError("model.channels", list(channels), "must be two numbers, of the two convolutions")
        first, second = (integer("model.channels", count, 1) for count in channels)
        if len(image) != 3:
            raise ConfigError("model.image", list(image), "must be three numbers: channels, height, width")
        inner, height, width = (integer("model.image", side, low) for side, low in zip(image, (1, SIDE, SIDE), strict=True))
        self.input_shape = (inner, height, width)
        self.layers = nn.Sequential(
            nn.Conv2d(inner, first, 5, stride=2), nn.ReLU(),
            nn.Conv2d(first, second, 5, stride=2), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * _behind(height) * _behind(width), hidden), nn.ReLU(),
            nn.Linear(hidden, outputs),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


def _behind(side: int) -> int:
    """Return the side of an image after both convolutions."""
    for _ in range(2):
        side = (side - 5) // 2 + 1
    return side
