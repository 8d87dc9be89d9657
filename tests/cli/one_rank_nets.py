"""Networks that fail on rank 1 alone."""

import os
import sys

from torch import Tensor, nn


class Refused(nn.Linear):
    """Its constructor fails."""

    def __init__(self) -> None:
        super().__init__(784, 10)
        if os.environ.get("PMI_RANK") == "1":
            raise ValueError("no licence on this machine")


class Leaving(nn.Sequential):
    """Ends its process after some members."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.calls = 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        if os.environ.get("PMI_RANK") == "1" and self.calls > 20:
            sys.exit(0)
        return super().forward(images)
