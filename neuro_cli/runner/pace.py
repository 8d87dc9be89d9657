"""Ends of schedules under a time limit, by the pace of the first generations.

A schedule over ``generations`` has hardly fallen when a short ``time_limit`` ends the run. The new end is written to the config
of the run's folder, so that a resumed run has the same bits.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict

from neuro_cli.core.schedule import Schedule
from neuro_cli.fabric.base import World
from neuro_cli.runner.config import PaceConfig, RunConfig

SHARE = 0.05  # share of the time limit in which the pace is measured
GENERATIONS = 4  # least number that is measured; the first one compiles and does not count


class Pace:
    """Pace of a session that began at ``time.monotonic() == begun``; sets the end of ``schedules`` that would end later."""

    def __init__(self, config: RunConfig, schedules: Sequence[Schedule], begun: float) -> None:
        self._schedules = [each for each in schedules if each.kind != "constant"]
        self._limit, self._begun = config.time_limit, begun
        self._passed = 0  # generations of this session
        self._first = 0.0
        self._open = config.pace.measure and config.pace.end is None and self._limit is not None and bool(self._schedules)
        if config.pace.end is not None:
            self._apply(config.pace)

    def measured(self, generation: int, world: World) -> PaceConfig | None:
        """Return the pace in the generation that ends the measurement, else None. Every rank calls this in every generation.

        If all generations fit into the time limit, its ``end`` is None and nothing is measured again.
        """
        if not self._open:
            return None
        assert self._limit is not None
        self._passed += 1
        spent = time.monotonic() - self._begun
        if self._passed == 1:
            self._first = spent
        if not world.any(self._passed >= GENERATIONS and spent > SHARE * self._limit):
            return None
        self._open = False
        rest = (self._limit - spent) * (self._passed - 1) / max(spent - self._first, 1e-9)
        end = generation + max(1, int(rest))
        pace = PaceConfig(**json.loads(world.broadcast(json.dumps(asdict(PaceConfig(True, generation, end))).encode())))
        return pace if self._apply(pace) else PaceConfig(measure=False)

    def _apply(self, pace: PaceConfig) -> bool:
        """Move the ends of later schedules, and return whether there were any."""
        assert pace.end is not None
        assert pace.since is not None
        late = [each for each in self._schedules if each.generations > pace.end]
        for each in late:
            each.end_at(pace.end, pace.since)
        return bool(late)
