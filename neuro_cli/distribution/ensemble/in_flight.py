"""Forward passes in flight: their logits are exchanged while others are computed."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from neuro_cli.fabric.base import Exchange


@dataclass(frozen=True)
class Pass:
    """Pass of a minibatch or a piece of it: ``number``, ``targets``, ``logits`` of this rank's members, the pending sum."""

    number: int
    targets: Tensor
    logits: Sequence[Tensor]
    exchange: Exchange


def push(flight: Iterable[Pass]) -> None:
    """Let the library progress pending sums: MPI moves data only when it is called."""
    for due in flight:
        due.exchange.test()


def finish(flight: deque[Pass]) -> None:
    """Wait for all sums and drop them: MPI must not end with open requests."""
    while flight:
        flight.popleft().exchange.wait()
