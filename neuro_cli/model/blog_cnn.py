"""Member of the ensemble of Webb 2019, "Distributed joint training of large ensembles with low communication overhead".

The post calls this network ``Net``."""

from torch import Tensor, nn

from neuro_cli.core.checks import integer


class BlogCNN(nn.Module):
    """Images (B, 1, 28, 28) to logits (B, outputs): two 3x3 convolutions of stride 2, an average, two linear layers.

    8,470 parameters with 10 outputs.
    """

    input_shape = (1, 28, 28)

    def __init__(self, outputs: int = 10) -> None:
        super().__init__()
        integer("model.outputs", outputs, 1)
        self.features = nn.Sequential(
            nn.Conv2d(1, 20, 3, stride=2),
            nn.ReLU(),
            nn.Conv2d(20, 40, 3, stride=2),
            nn.ReLU(),
            nn.AvgPool2d(6),
        )
        self.classifier = nn.Sequential(nn.Linear(40, 20), nn.ReLU(), nn.Linear(20, outputs))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))
