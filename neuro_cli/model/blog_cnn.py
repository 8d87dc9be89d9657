"""Small convolutional network for MNIST, of the size that the post on joint training of ensembles uses for its members.

Webb 2019, "Distributed Joint Training of Large Ensembles with Low Communication Overhead", gives the idea and the settings; its
layers were not available when this was written, so these are ours: two 5x5 convolutions with ReLU and pooling, one linear
layer.
"""

from torch import Tensor, nn

from neuro_cli.core.checks import integer


class BlogCNN(nn.Module):
    """Images (B, 1, 28, 28) to logits (B, outputs). 15,074 parameters with 10 outputs."""

    input_shape = (1, 28, 28)

    def __init__(self, outputs: int = 10) -> None:
        super().__init__()
        integer("model.outputs", outputs, 1)
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(12, 32, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(32 * 4 * 4, outputs)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))
