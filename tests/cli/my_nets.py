"""Networks as a user would write them, unaware of neuro."""

import os
import sys
from itertools import count

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """Flattens with ``view``, which channels-last activations do not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(images)))
        return self.out(self.dropout(x.view(x.shape[0], -1)))


class Fragile(nn.Module):
    """Gives no numbers once its weights have moved far enough."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(64, 10)
        nn.init.zeros_(self.out.weight)

    def forward(self, images: Tensor) -> Tensor:
        logits = self.out(images.flatten(1))
        return logits / 0 if self.out.weight.std() > 0.2 else logits


def own_rank() -> str | None:
    """The rank as the launcher of MPICH or of Open MPI gives it."""
    return os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))


FAILS = os.environ.get("FAILS", "")
CALLS = count(1)  # of a process: members have modules of their own


class FailsOnRankOne(nn.Module):
    """``FAILS``: an error, or the end of the process, after some members; else the constructor fails."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(784 if FAILS == "" else 64, 10)
        if FAILS == "" and own_rank() == "1":
            raise ValueError("no licence on this machine")

    def forward(self, images: Tensor) -> Tensor:
        if own_rank() == "1" and next(CALLS) > 100:
            if FAILS == "exit":
                sys.exit(0)
            raise OSError("the sensor came loose")
        return self.out(images.flatten(1))


class FiveClasses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(64, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.out(images.flatten(1))
