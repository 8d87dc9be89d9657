"""A network that takes its time: a generation of it outlasts what an impatient launcher grants its ranks."""

import time

from torch import Tensor, nn


class Slow(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, images: Tensor) -> Tensor:
        time.sleep(0.4)
        return super().forward(images)
