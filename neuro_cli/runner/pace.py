"""Ends of schedules under a time limit, by the pace of the generations before.

A schedule over ``generations`` has hardly fallen when a short ``time_limit`` ends the run. Later generations may take longer,
for example episodes of robots that no longer fall, so the pace is measured several times. Each new end is written to the config
of the run's folder, so that a resumed run has the same bits.
"""

import json
import time
from collections.abc import Sequence

from neuro_cli.core.schedule import Schedule
from neuro_cli.fabric.base import World
from neuro_cli.runner.config import PaceConfig, RunConfig

SHARE = 0.05  # share of the time limit before the first measurement; the next ones come after twice, four times, .. as much
GENERATIONS = 4  # least number before the first measurement; the first one compiles and does not count


class Pace:
    """Pace of a session that began at ``time.monotonic() == begun``; sets the end of ``schedules`` that would end later."""

    def __init__(self, config: RunConfig, schedules: Sequence[Schedule], begun: float) -> None:
        self._schedules = [each for each in schedules if each.kind != "constant"]
        self._limit, self._begun = config.time_limit, begun
        self._passed = 0  # generations of this session
        self._mark = 0, 0.0  # generations and seconds at the last measurement
        self._share, self._pace = SHARE, config.pace
        self._open = config.pace.measure and not config.pace.end and self._limit is not None and bool(self._schedules)
        for since, end in zip(config.pace.since, config.pace.end, strict=True):
            self._move(since, end)

    def measured(self, generation: int, world: World) -> PaceConfig | None:
        """Return the pace in a generation that ends a measurement, else None. Every rank calls this in every generation.

        If all generations fit into the time limit, it has no ``end`` and measuring stops.
        """
        if not self._open:
            return None
        assert self._limit is not None
        self._passed += 1
        spent = time.monotonic() - self._begun
        if self._passed == 1:
            self._mark = 1, spent
        if not world.any(self._passed >= GENERATIONS and spent > self._share * self._limit):
            return None
        passed, seconds = self._mark
        rest = (self._limit - spent) * (self._passed - passed) / max(spent - seconds, 1e-9)
        share = 2 * self._share
        while share * self._limit < spent:
            share *= 2
        # clocks of ranks differ, so rank 0 decides
        end, self._share = json.loads(world.broadcast(json.dumps([generation + max(1, int(rest)), share]).encode()))
        self._mark = self._passed, spent
        moved = self._move(generation, end)
        self._open = moved and self._share < 1
        if not moved:
            return PaceConfig(measure=False)
        self._pace = PaceConfig(True, (*self._pace.since, generation), (*self._pace.end, end))
        return self._pace

    def _move(self, since: int, end: int) -> bool:
        """Move the ends of schedules that end later or were moved before, and return whether there were any."""
        late = [each for each in self._schedules if each.moved or each.end > end]
        for each in late:
            each.end_at(min(end, each.generations), since)
        return bool(late)
