"""Messages of an ensemble: for every minibatch the sum of a rank's members' logits, B x K numbers.

``fixed`` (8 bytes per number) sends multiples of a power of two: integers add up to the same bits in any order, so a run does
not depend on how many ranks share the members or by which tree the library adds. ``float32`` and ``float64`` add in the
library's order.

Legend: M members, B examples, K classes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

LARGEST = 4096.0  # a run with logits beyond it has diverged: exp of their differences overflows
ENCODINGS = ("fixed", "float32", "float64")


class Wire(ABC):
    """Turns logits into a message that adds up over the ranks, and the sum into the mean logits of all members."""

    @abstractmethod
    def encode(self, logits: Sequence[Tensor]) -> np.ndarray:
        """Encode the sum of a rank's members' logits, (B, K) each, as one message (B K,)."""

    @abstractmethod
    def decode(self, total: np.ndarray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | None:
        """Decode mean logits ``shape`` = (B, K) of all members; None when any of them was not a finite number within +-4096."""


class Fixed(Wire):
    """Integers of 64 bits. The lowest bits count messages that could not be encoded; they suffice for the number of members."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._marks = members.bit_length()
        # |sum| <= members * 4096 must fit into 62 bits next to the count
        self.scale = 2.0 ** (62 - self._marks - math.ceil(math.log2(members * LARGEST)))

    def encode(self, logits: Sequence[Tensor]) -> np.ndarray:
        total = torch.zeros_like(logits[0], dtype=torch.int64)
        for own in logits:
            if not within(own):
                marked = np.zeros(own.numel(), np.int64)
                marked[0] = 1
                return marked
            total += (own.double() * self.scale).round_().long()
        return (total << self._marks).flatten().cpu().numpy()

    def decode(self, total: np.ndarray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | None:
        if total[0] & ((1 << self._marks) - 1):
            return None
        mean = torch.from_numpy(total >> self._marks).double() / (self.scale * self._members)
        return mean.to(dtype).view(shape)


class Floating(Wire):
    """Floats of ``dtype``; a number that is not finite makes the sum not finite."""

    def __init__(self, members: int, dtype: torch.dtype) -> None:
        self._members, self._dtype = members, dtype

    def encode(self, logits: Sequence[Tensor]) -> np.ndarray:
        total = torch.zeros_like(logits[0], dtype=torch.float64)
        for own in logits:
            total += own if within(own) else math.nan
        return total.to(self._dtype).flatten().cpu().numpy()

    def decode(self, total: np.ndarray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | None:
        mean = torch.from_numpy(total).double() / self._members
        return mean.to(dtype).view(shape) if bool(mean.isfinite().all()) else None


def within(logits: Tensor) -> bool:
    """Return whether all are numbers within +-4096."""
    return bool((logits.abs() <= LARGEST).all())


def wire_of(name: str, members: int) -> Wire:
    """Return the wire called ``name``, one of ``ENCODINGS``, for ``members`` members in all."""
    return Fixed(members) if name == "fixed" else Floating(members, {"float32": torch.float32, "float64": torch.float64}[name])
