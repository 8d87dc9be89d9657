"""Shapes that a model may declare, and statistics of pixels, for image tasks."""

import torch
from torch import Tensor

from neuro_cli.core.errors import UserError

CHANNELS = {1: "L", 3: "RGB"}


def shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def resizable_shape(task: str, declared: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the (C, H, W) that a task with images of any size gives to a model that declares ``declared``.

    Raises UserError unless it has three positive sizes with C = 1 (grey) or 3 (colour).
    """
    if len(declared) != 3 or declared[0] not in CHANNELS or min(declared) < 1:
        raise UserError(f"model expects {shape_text(declared)}, task={task} gives 1xHxW or 3xHxW")
    channels, height, width = declared
    return channels, height, width


def pixel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel of ``images`` (N, C, H, W) uint8, in units of 255."""
    values = torch.arange(256, dtype=torch.float64) / 255
    means, deviations = [], []
    for channel in images.unbind(1):
        # a histogram is exact in any order of summation and needs no float copy of the images
        shares = torch.bincount(channel.reshape(-1), minlength=256).double() / channel.numel()
        mean = (shares * values).sum()
        means.append(mean.item())
        deviations.append((shares * (values - mean) ** 2).sum().sqrt().item())
    # one grey level stands in for the deviation of a channel that never varies
    return tuple(means), tuple(max(deviation, 1 / 255) for deviation in deviations)
