"""Weak and strong efficiency of a run on several ranks, generation by generation, against one rank.

DarwiNN (section 5) defines weak E_w = t1 / tN with as many members per rank, strong E_s = t1 / (N tN) with as many in all. A
run measures tN only; t1 is projected from this rank's parts of the same generation:

- ``scored`` and ``summed``: seconds for its own scores and for its sums. Methods share out both, so that one rank with this
  rank's members would need as long, and one rank with all members N times as long. Where every rank computes all sums
  (``replicated``), it computes N times as many as one rank with these members would, or N / L times where the L ranks of a
  machine share them.
- Ranks that share caches and memory slow each other down, which one rank would not. So in the session's first generation rank 0
  scores its members alone, while the others sleep, and then again together with them. ``alone`` is the ratio of the two times.
- Every rank does the rest in full (the optimizer's step, shaping), apart from communication.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch

from neuro_cli.core.clock import Clock
from neuro_cli.fabric.base import World
from neuro_cli.logger.columns import RANK_COLUMNS
from neuro_cli.scoring.base import Scorer

T = TypeVar("T")


class EfficiencyMeter:
    """Times the parts of each generation on this rank. ``sums_alone``: share of its sums that one rank would compute, in (0, 1].

    ``scorer``: what scores. ``aside``: seconds of this generation that rank 0 scored alone.
    """

    def __init__(self, world: World, clock: Clock, sums_alone: float, scorer: Scorer) -> None:
        self._world, self._clock, self._scorer = world, clock, scorer
        self._sums_alone = sums_alone
        self._alone: float | None = None
        self._clear()

    def _clear(self) -> None:
        self._scored = self._summed = self.aside = 0.0

    def scores(self, score: Callable[[], np.ndarray]) -> np.ndarray:
        """Run ``score``, this rank's scores of a generation. Every rank calls this."""
        before = self._alone_seconds(score) if self._alone is None else None
        begun = time.perf_counter()
        scores = score()
        self._scored += time.perf_counter() - begun
        if before is not None:
            self._alone = before / self._scored
        return scores

    def sums(self, combine: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Time ``combine``, a part of this rank's sums, for the efficiency."""
        begun = time.perf_counter()
        sums = combine()
        if sums.is_cuda:
            torch.cuda.synchronize(sums.device)  # costs nothing: the sums are copied to the host next
        self._summed += time.perf_counter() - begun
        return sums

    def take(self, seconds: float, communicated: float) -> dict[str, float | None]:
        """Return efficiencies of the generation that took ``seconds``, ``communicated`` of them in collectives, and restart."""
        # seconds of one rank with this rank's members, without the slow-down by the others
        shared = (self._alone or 1.0) * (self._scored + self._sums_alone * self._summed)
        own = seconds - communicated - self._scored - self._summed
        ranks = self._world.size
        self._clear()
        return dict(zip(RANK_COLUMNS, ((shared + own) / seconds, (ranks * shared + own) / (ranks * seconds)), strict=True))

    def _alone_seconds(self, score: Callable[[], np.ndarray]) -> float:
        """Return the seconds of a second ``score`` on rank 0, after one to warm up, while all others sleep."""
        world, begun, seconds = self._world, time.perf_counter(), 0.0
        before = world.traffic.sent, world.traffic.received
        if world.rank == 0:
            state = self._scorer.state()
            for _ in range(2):
                start = time.perf_counter()
                score()
                seconds = time.perf_counter() - start
                # control variates learn while they score: rank 0 would know more than the other ranks
                self._scorer.restore(state)
        world.broadcast(b"")  # the other ranks wait without using the processor
        world.traffic.sent, world.traffic.received = before  # this is no generation's traffic
        self._clock.take()  # nor its time
        self.aside = time.perf_counter() - begun
        return seconds
