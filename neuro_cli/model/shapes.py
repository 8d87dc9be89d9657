"""Checks of sizes, and sums over squares of pixels, for networks on images."""

from collections.abc import Sequence

from torch import Tensor

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError


def checked_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return channels, height and width of images. Raises ConfigError."""
    if isinstance(shape, str) or not isinstance(shape, Sequence) or len(shape) != 3:
        raise ConfigError("model.input_shape", shape, "must be [channels, height, width]")
    channels, height, width = (integer("model.input_shape", size, 1) for size in shape)
    return channels, height, width


def checked_pool(pool: int, shape: tuple[int, int, int]) -> int:
    """Return the side of the squares that images of ``shape`` divide into. Raises ConfigError."""
    if shape[1] % integer("model.pool", pool, 1) or shape[2] % pool:
        raise ConfigError("model.pool", pool, f"must divide both sides of the images, {shape[1]}x{shape[2]}")
    return pool


def square_sums(x: Tensor, side: int) -> Tensor:
    """Sum of each square of pixels: (B, C, H, W) to (B, C, H / side, W / side), in one order everywhere."""
    total = x[..., ::side, ::side]
    for row in range(side):
        for column in range(side):
            if row or column:
                total = total + x[..., row::side, column::side]
    return total


def checked_widths(hidden: Sequence[int]) -> list[int]:
    """Return the widths of hidden layers. Raises ConfigError."""
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise ConfigError("model.hidden", hidden, "must be a list of widths, for example [64,64]")
    return [integer("model.hidden", width, 1) for width in hidden]
