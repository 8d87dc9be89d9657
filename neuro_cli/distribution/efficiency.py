"""Weak and strong efficiency of a run on several ranks, generation by generation, against one rank.

DarwiNN (section 5) defines weak E_w = t1 / tN with as many members per rank, strong E_s = t1 / (N tN) with as many in all. In a
run that goes on only tN is measured whole; t1 is projected from this rank's parts of the same generation:

- ``scored`` and ``summed``: seconds of its own scores and of its sums. Methods share out both, so one rank with this rank's
  members would need as long for them, and one rank with all members N times as long. Where every rank makes all sums
  (``replicated``) it makes N times what one rank with these members would, where the L ranks of a machine share them N / L times.
- Ranks slow each other down where they share caches and memory. One rank would not: in the session's first generation
  rank 0 scores its members alone, the others asleep, and then again together with them. ``alone`` is the ratio of the two.
- What is neither of these nor communication (the optimizer's step, shaping) every rank does in full.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch

from neuro_cli.core.clock import Clock
from neuro_cli.fabric.base import World
from neuro_cli.logger.columns import RANK_COLUMNS

T = TypeVar("T")


class EfficiencyMeter:
    """Times the parts of each generation on this rank. ``sums_alone``: share of its sums that one rank would make, in (0, 1].

    ``aside``: seconds of this generation that went into scoring alone.
    """

    def __init__(self, world: World, clock: Clock, sums_alone: float) -> None:
        self._world, self._clock = world, clock
        self._sums_alone = sums_alone
        self._alone: float | None = None
        self._clear()

    def _clear(self) -> None:
        self._scored = self._summed = self.aside = 0.0

    def scores(self, score: Callable[[], np.ndarray]) -> np.ndarray:
        """Run ``score``, this rank's scores of a generation. Every rank calls this."""
        before = self._alone_seconds(score) if self._alone is None else None
        begun = time.perf_counter()
        made = score()
        self._scored += time.perf_counter() - begun
        if before is not None:
            self._alone = before / self._scored
        return made

    def sums(self, combine: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Run ``combine``, a part of this rank's sums."""
        begun = time.perf_counter()
        made = combine()
        if made.is_cuda:
            torch.cuda.synchronize(made.device)  # they leave for the host next, so nothing is lost
        self._summed += time.perf_counter() - begun
        return made

    def take(self, seconds: float, communicated: float) -> dict[str, float | None]:
        """Efficiencies of the generation that took ``seconds``, ``communicated`` of them in collectives; the next one begins."""
        shared = (self._alone or 1.0) * (self._scored + self._sums_alone * self._summed)
        own = seconds - communicated - self._scored - self._summed
        ranks = self._world.size
        self._clear()
        return dict(zip(RANK_COLUMNS, ((shared + own) / seconds, (ranks * shared + own) / (ranks * seconds)), strict=True))

    def _alone_seconds(self, score: Callable[[], np.ndarray]) -> float:
        """Seconds of ``score`` on rank 0 while all others sleep, the second time: the first one warms up."""
        world, begun, seconds = self._world, time.perf_counter(), 0.0
        before = world.traffic.sent, world.traffic.received
        if world.rank == 0:
            score()
            start = time.perf_counter()
            score()
            seconds = time.perf_counter() - start
        world.broadcast(b"")  # waits without using the processor
        world.traffic.sent, world.traffic.received = before  # not what a generation sends
        self._clock.take()  # nor what it takes
        self.aside = time.perf_counter() - begun
        return seconds
