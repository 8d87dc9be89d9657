"""The network of the MNIST run of scripts/gpu_check.sh: two strided 5x5 convolutions and a linear layer, 11,274 parameters."""

from torch import nn


class Strided(nn.Sequential):
    """Images (B, 1, 28, 28) to logits (B, outputs)."""

    input_shape = (1, 28, 28)

    def __init__(self, outputs: int = 10) -> None:
        super().__init__(
            nn.Conv2d(1, 8, 5, 2, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 49, outputs)
        )
