"""A network of 334 parameters."""

from torch import nn


class Tiny(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.AvgPool2d(2, 2), nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 10))
