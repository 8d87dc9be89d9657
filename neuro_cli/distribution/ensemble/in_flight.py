"""Forward passes whose logits travel while others are made."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from neuro_cli.fabric.base import Exchange


@dataclass(frozen=True)
class Pass:
    """A minibatch, or a piece of one: its ``number``, its ``targets``, a rank's members' ``logits``, the sum under way."""

    number: int
    targets: Tensor
    logits: Sequence[Tensor]
    exchange: Exchange


def push(flight: Iterable[Pass]) -> None:
    """Let the library move what is under way: MPI moves data only when it is called."""
    for due in flight:
        due.exchange.test()


def finish(flight: deque[Pass]) -> None:
    """Wait for all sums and drop them: MPI must not end with requests open."""
    while flight:
        flight.popleft().exchange.wait()
