"""Convolutional network that repeats one module, the architecture that `neuro search` evolves.

A module is a list of layer names. Each layer is one convolution that keeps the image's size, or two that do so together, with
a ReLU after each. Between repetitions a 1x1 convolution doubles the filters and a 3x3 max pool of stride 2 halves the sides
(Hajewski and Oliveira, "A Scalable Architecture for Parallel Deep Learning"). The head is ours: the mean over the image and a
linear layer.
"""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from neuro_cli.core.checks import boolean, integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.model.shapes import checked_shape

# kernel (height, width) of each convolution of a layer
LAYERS: dict[str, tuple[tuple[int, int], ...]] = {
    "1x1": ((1, 1),),
    "3x3": ((3, 3),),
    "3x1-1x3": ((3, 1), (1, 3)),
    "5x5": ((5, 5),),
    "5x1-1x5": ((5, 1), (1, 5)),
}


def check_layers(key: str, names: object) -> tuple[str, ...]:
    """Check that ``names`` are one or more names of layers, and return them. Raises ConfigError."""
    allowed = f"must be a list of {', '.join(LAYERS)}, at least one"
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ConfigError(key, names, allowed)
    for name in names:
        if name not in LAYERS:
            raise ConfigError(key, f"[{','.join(map(str, names))}]", f"{name} is no layer; {allowed}")
    return tuple(names)


class ModuleCNN(nn.Module):
    """Images (B, *input_shape) to logits (B, outputs).

    ``module``: names of layers, in order; ``filters``: filters of each layer in the first of ``repeats`` repetitions;
    ``batch_norm``: between each convolution and its ReLU (Ioffe and Szegedy 2015).
    """

    def __init__(
        self,
        module: Sequence[str],
        input_shape: Sequence[int],
        outputs: int,
        filters: int,
        repeats: int,
        batch_norm: bool,
    ) -> None:
        super().__init__()
        boolean("model.batch_norm", batch_norm)
        names = check_layers("model.module", module)
        self.input_shape = checked_shape(input_shape)
        inner, width = self.input_shape[0], integer("model.filters", filters, 1)
        parts: list[nn.Module] = []
        for repetition in range(integer("model.repeats", repeats, 1)):
            if repetition:
                parts += [_convolution(width, 2 * width, (1, 1), "linear"), nn.MaxPool2d(3, 2, padding=1)]
                inner = width = 2 * width
            for name in names:
                for kernel in LAYERS[name]:
                    norm = [nn.BatchNorm2d(width)] if batch_norm else []
                    parts += [_convolution(inner, width, kernel, "relu"), *norm, nn.ReLU()]
                    inner = width
        self.features = nn.Sequential(*parts)
        self.classifier = nn.Linear(width, integer("model.outputs", outputs, 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).mean((2, 3)))


def _convolution(inner: int, outer: int, kernel: tuple[int, int], follows: Literal["relu", "linear"]) -> nn.Conv2d:
    """Build a convolution that keeps the image's size, initialised for its ReLU (He et al. 2015): modules may be deep."""
    height, width = kernel
    convolution = nn.Conv2d(inner, outer, kernel, padding=(height // 2, width // 2))
    nn.init.kaiming_normal_(convolution.weight, nonlinearity=follows)
    nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
    return convolution
