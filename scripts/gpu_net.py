"""Networks of the MNIST runs of scripts/gpu_check.sh: two strided 5x5 convolutions and a linear layer."""

from torch import nn


class Strided(nn.Sequential):
    """Images (B, 1, 28, 28) to logits (B, outputs); 11,274 parameters."""

    input_shape = (1, 28, 28)

    def __init__(self, outputs: int = 10) -> None:
        super().__init__(
            nn.Conv2d(1, 8, 5, 2, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 49, outputs)
        )


class Pooled(nn.Sequential):
    """Images (B, 1, 28, 28) to logits (B, outputs), the last image pooled; 4,874 parameters."""

    input_shape = (1, 28, 28)

    def __init__(self, outputs: int = 10) -> None:
        super().__init__(
            nn.Conv2d(1, 8, 5, 2, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(16 * 9, outputs),
        )  # fmt: skip
