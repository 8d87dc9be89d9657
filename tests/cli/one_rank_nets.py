"""Networks that fail on rank 1 alone."""

import os
import sys
from itertools import count

from torch import Tensor, nn


def own_rank() -> str | None:
    """The rank as the launcher of MPICH or of Open MPI gives it."""
    return os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))


class Refused(nn.Linear):
    """Its constructor fails."""

    def __init__(self) -> None:
        super().__init__(784, 10)
        if own_rank() == "1":
            raise ValueError("no licence on this machine")


CALLS = count(1)  # of a process: members have modules of their own


class Leaving(nn.Sequential):
    """Ends its process after some members."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, images: Tensor) -> Tensor:
        if own_rank() == "1" and next(CALLS) > 20:
            sys.exit(0)
        return super().forward(images)
