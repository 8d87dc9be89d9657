"""Wide residual networks for 32x32 colour images (Zagoruyko and Komodakis 2016, arXiv 1605.07146, table 1).

Three groups of (depth - 4) / 6 pre-activation blocks with two 3x3 convolutions each, and 16, 32 and 64 times ``width`` channels.
"""

from collections.abc import Iterator

from torch import Tensor, nn

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError


class WideBlock(nn.Module):
    """Pre-activation block, (B, inner, H, W) to (B, outer, H/stride, W/stride)."""

    def __init__(self, inner: int, outer: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(inner), nn.ReLU())
        self.residual = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            *([nn.Dropout(dropout)] if dropout else []),
            nn.Conv2d(outer, outer, 3, padding=1, bias=False),
        )
        same_shape = inner == outer and stride == 1
        self.shortcut = None if same_shape else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        active = self.before(images)
        # a shortcut between different shapes starts after the block's normalisation, like the convolutions
        return self.residual(active) + (images if self.shortcut is None else self.shortcut(active))


class WideResNet(nn.Module):
    """WRN-depth-width: images (B, 3, 32, 32) to logits (B, outputs). ``dropout``: between the convolutions, in [0, 1)."""

    input_shape = (3, 32, 32)

    def __init__(self, depth: int, width: int, dropout: float = 0.0, outputs: int = 10) -> None:
        super().__init__()
        if (integer("model.depth", depth, 10) - 4) % 6:
            raise ConfigError("model.depth", depth, "must be 4 more than a multiple of 6: 10, 16, 22, 28, 40")
        integer("model.width", width, 1)
        integer("model.outputs", outputs, 1)
        if number("model.dropout", dropout, low=0.0, high=1.0) == 1.0:
            raise ConfigError("model.dropout", dropout, "must be below 1")
        blocks = [WideBlock(inner, outer, stride, dropout) for inner, outer, stride in _plan((depth - 4) // 6, width)]
        last = 64 * width
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False), *blocks, nn.BatchNorm2d(last), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )
        self.classifier = nn.Linear(last, outputs)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))


def _plan(blocks: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield input channels, output channels and stride of every block."""
    inner = 16
    for group, channels in enumerate((16, 32, 64)):
        for block in range(blocks):
            yield inner, channels * width, 2 if group and not block else 1
            inner = channels * width
