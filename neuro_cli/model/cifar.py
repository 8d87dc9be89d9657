"""Networks for 32x32 colour images: a chain of 3x3 blocks with batch normalisation, depthwise separable or plain.

CIF_900K and CIF_8M are networks of Lenc, Elsen, Schaul, Simonyan, "Non-differentiable supervised learning with evolution
strategies and hybrid methods", 2019 (arXiv 1906.03139), which DarwiNN (GECCO '20 Companion) scales; CIF_300K is in the examples
of DarwiNN's repository. The depthwise blocks follow Howard et al., "MobileNets", 2017, with one batch normalisation a block.
"""

from typing import ClassVar

from torch import Tensor, nn

from neuro_cli.core.checks import integer

# output channels and stride of each block
PLAN = (
    (64, 1),
    (64, 1),
    (128, 2),
    (128, 1),
    (128, 1),
    (256, 2),
    (256, 1),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
)


def separable_block(inner: int, outer: int, stride: int) -> nn.Sequential:
    """Build (B, inner, H, W) to (B, outer, H/stride, W/stride): a filter for each channel, then a mix at each pixel."""
    return nn.Sequential(
        nn.Conv2d(inner, inner, 3, stride, padding=1, groups=inner, bias=False),
        nn.Conv2d(inner, outer, 1, bias=False),
        nn.BatchNorm2d(outer),
        nn.ReLU(),
    )


def plain_block(inner: int, outer: int, stride: int) -> nn.Sequential:
    """Build (B, inner, H, W) to (B, outer, H/stride, W/stride): one full 3x3 convolution."""
    return nn.Sequential(nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU())


class CIFARNetwork(nn.Module):
    """Images (B, 3, 32, 32) to logits (B, outputs). Subclasses set the number of blocks and their kind."""

    input_shape = (3, 32, 32)
    blocks: ClassVar[int] = len(PLAN)
    separable: ClassVar[bool] = True

    def __init__(self, outputs: int = 10) -> None:
        super().__init__()
        integer("model.outputs", outputs, 1)
        block = separable_block if self.separable else plain_block
        layers, inner = [], self.input_shape[0]
        for outer, stride in PLAN[: self.blocks]:
            layers.append(block(inner, outer, stride))
            inner = outer
        self.features = nn.Sequential(*layers, nn.AvgPool2d(4))
        self.classifier = nn.Linear(inner, outputs)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))


class CIF_300K(CIFARNetwork):
    """360,421 parameters: the first nine separable blocks."""

    blocks = 9


class CIF_900K(CIFARNetwork):
    """895,973 parameters: eleven separable blocks (Lenc et al. 2019)."""


class CIF_8M(CIFARNetwork):
    """7,790,794 parameters: eleven plain blocks (Lenc et al. 2019)."""

    separable = False
