"""Networks for 28x28 grey images: two convolutions and one or two linear layers, or three linear layers.

MNIST_3M is the network of Zhang, Clune, Stanley, "On the relationship between the OpenAI evolution strategy and stochastic
gradient descent", 2017 (arXiv 1712.06564), which DarwiNN (GECCO '20 Companion) scales; MNIST_30K is one of Lenc, Elsen, Schaul,
Simonyan 2019 (arXiv 1906.03139). MNIST_10K is in the examples of DarwiNN's repository; MLP_270K is ours.
"""

from typing import ClassVar

from torch import Tensor, nn

from neuro_cli.core.checks import integer


class MNISTNetwork(nn.Module):
    """Images (B, 1, 28, 28) to logits (B, outputs).

    Subclasses set the channels of the two 5x5 convolutions and the width of the hidden layer (None: no such layer).
    """

    input_shape = (1, 28, 28)
    channels: ClassVar[tuple[int, int]]
    hidden: ClassVar[int | None] = None

    def __init__(self, outputs: int = 10) -> None:
        super().__init__()
        integer("model.outputs", outputs, 1)
        first, second = self.channels
        # pooling before the ReLU gives the same numbers with a quarter of the ReLU's work
        self.features = nn.Sequential(
            nn.Conv2d(1, first, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(first, second, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
        )
        width = second * 7 * 7
        if self.hidden is None:
            self.classifier = nn.Sequential(nn.Linear(width, outputs))
        else:
            self.classifier = nn.Sequential(nn.Linear(width, self.hidden), nn.ReLU(), nn.Linear(self.hidden, outputs))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))


class MLP_270K(nn.Module):
    """269,322 parameters: 784-256-256-10 with ReLU."""

    input_shape = (1, 28, 28)

    def __init__(self, outputs: int = 10) -> None:
        super().__init__()
        integer("model.outputs", outputs, 1)
        self.layers = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs))

    def forward(self, images: Tensor) -> Tensor:
        """Map images (B, 1, 28, 28) to logits (B, outputs)."""
        return self.layers(images.flatten(1))


class MNIST_10K(MNISTNetwork):
    """11,274 parameters."""

    channels = (8, 16)


class MNIST_30K(MNISTNetwork):
    """28,938 parameters (Lenc et al. 2019)."""

    channels = (16, 32)


class MNIST_500K(MNISTNetwork):
    """454,922 parameters."""

    channels = (32, 64)
    hidden = 128


class MNIST_3M(MNISTNetwork):
    """3,274,634 parameters (Zhang, Clune, Stanley 2017)."""

    channels = (32, 64)
    hidden = 1024
