"""Networks of a few thousand parameters for the tests of ensembles."""

import torch
from torch import Tensor, nn


class Tiny(nn.Module):
    input_shape = (1, 28, 28)

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(28 * 28, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(images.flatten(1) / 28)


class Undropped(nn.Module):
    input_shape = (1, 28, 28)
    share = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Dropout(self.share), nn.Linear(28 * 28, 10))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images / 28)


class Dropped(Undropped):
    share = 0.5


class Broken(Tiny):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) * torch.nan


class Eleven(Tiny):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(28 * 28, 11)
