"""Base of the methods whose logits are exchanged while others are computed."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from neuro_cli.distribution.ensemble.base import EnsembleContext, LogitMethod
from neuro_cli.fabric.base import Exchange


@dataclass(frozen=True)
class Pass:
    """Pass of a minibatch or a piece of it: ``number``, ``targets``, ``logits`` of this rank's members, the pending sum."""

    number: int
    targets: Tensor
    logits: Sequence[Tensor]
    exchange: Exchange


class LogitsInFlight(LogitMethod):
    """Base with the passes whose sums are pending, the oldest first."""

    def bind(self, job: EnsembleContext) -> None:
        super().bind(job)
        self.flight: deque[Pass] = deque()

    def begin(self, number: int, targets: Tensor, logits: Sequence[Tensor]) -> None:
        """Begin to exchange the logits of a pass."""
        self.flight.append(Pass(number, targets, logits, self.job.world.start_all_reduce(self.wire.encode(logits))))

    def push(self) -> None:
        """Let the library progress pending sums: MPI moves data only when it is called."""
        for due in self.flight:
            due.exchange.test()

    def oldest(self) -> tuple[Pass, np.ndarray]:
        """Wait for the oldest pending sum, and return its pass and the sum."""
        due = self.flight.popleft()
        with self.job.clock.phase("communicate"):
            return due, due.exchange.wait()

    def close(self) -> None:
        while self.flight:  # MPI must not end with open requests
            self.oldest()
