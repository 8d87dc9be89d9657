"""Succession under simulated faults: when the network is whole, one leader is left and the longest history stands."""

import pytest
from simulation import Simulation, Violation

from neuro_cli.election.succession import Succession

PARTS = 4
DEFAULT, SLOW = 1_000, 100_000  # schedules


def election() -> Succession:
    return Succession(heartbeat=0.1, timeout_min=0.4, timeout_max=0.8)


def run(seeds: range) -> None:
    for seed in seeds:
        try:
            Simulation(seed, election, safe=False).run()
        except Exception as error:
            raise AssertionError(f"schedule {seed}: {error}") from error


@pytest.mark.parametrize("part", range(PARTS))
def test_every_schedule_ends_with_one_leader_and_the_longest_history(part):
    count = DEFAULT // PARTS
    run(range(part * count, (part + 1) * count))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_schedules_end_so(part):
    count = SLOW // PARTS
    run(range(DEFAULT + part * count, DEFAULT + (part + 1) * count))


class ForgetsWhomItRemoved(Succession):
    """What neuro did until 2026-11-22: a leader that slept and those who removed it never spoke again."""

    def _remember(self, peer):
        pass

    def _replace_members(self, members):
        self._members = members
        self.host.wanted(sorted(members))


class FollowsAnybody(Succession):
    """Whoever says that it leads leads, also with a shorter history."""

    def _hear(self, peer, term, position, head, members):
        self._remember(peer)
        self._term, self._leader = max(self._term, term), peer
        self._postpone()
        self._replace_members(members | {self.me})
        self.host.fall_back(position, head, peer)


@pytest.mark.parametrize("broken", [ForgetsWhomItRemoved, FollowsAnybody])
def test_a_broken_takeover_is_found(broken):
    for seed in range(600):
        try:
            Simulation(seed, lambda: broken(0.1, 0.4, 0.8), safe=False).run()
        except Violation:
            return
    pytest.fail(f"600 schedules found nothing wrong with {broken.__name__}")
