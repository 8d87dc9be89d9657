"""Raft under simulated faults: the invariants hold in every schedule, and the simulation finds replicas that break one."""

from collections.abc import Sequence

import pytest
from simulation import Simulation, Violation

from neuro_cli.election import raft
from neuro_cli.election.raft import Raft
from neuro_cli.election.raft_log import Entry
from neuro_cli.election.raft_replica import Replica

PARTS = 8  # of the slow schedules
# schedules: together they find every replica of BROKEN
DEFAULT, SLOW = (*range(80), *range(250, 290)), 100_000


def election() -> Raft:
    """Short times, and a log that is compacted all the time."""
    return Raft(heartbeat=0.1, timeout_min=0.4, timeout_max=0.8, keep=10)


def run(seeds: Sequence[int]) -> int:
    """How many of the schedules ended with a majority alive, and so with an agreement that was checked."""
    ended = 0
    for seed in seeds:
        try:
            ended += Simulation(seed, election, safe=True).run().recoverable()
        except Exception as error:
            raise AssertionError(f"schedule {seed}: {error}") from error
    return ended


def test_every_schedule_keeps_the_invariants():
    assert run(DEFAULT) > 0.8 * len(DEFAULT)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_schedules_keep_the_invariants(part):
    count = SLOW // PARTS
    assert run(range(part * count, (part + 1) * count)) > 0.8 * count


def test_a_schedule_is_a_function_of_its_seed():
    first, second = (Simulation(7, election, safe=True).run() for _ in range(2))
    assert (first.steps, first.now, first.records) == (second.steps, second.now, second.records)
    assert first.steps > 300
    assert len(first.records) > 10


class VotesForAnybody(Replica):
    def _current(self, last, last_term):
        return True


class VotesTwice(Replica):
    def _asked(self, peer, term, now, **fields):
        self.vote = None
        super()._asked(peer, term, now, **fields)


class CommitsAlone(Replica):
    def _advance(self, now):
        self.committed = max(self.committed, self.log.last)


class SnapshotDropsWhatFollows(Replica):
    """What neuro did until 2026-11-22, by pysyncobj: a second, older snapshot cut what a newcomer had acknowledged."""

    def _takes_snapshot(self, peer, term, now, index, index_term, members, **rest):
        if index < self.log.last and self._hears(peer, term, now):
            self.log.reset(index, index_term, members)
            self.committed = index
        super()._takes_snapshot(peer, term, now, index=index, index_term=index_term, members=members, **rest)


class AcknowledgesWhatItLacks(Replica):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.has = lambda position, head: True


class CutsWhatItKnows(Replica):
    """A message that was overtaken by later ones cuts their entries off again."""

    def _appends(self, peer, term, now, previous, **rest):
        if term >= self.term and self.committed <= previous < self.log.last and self.log.term_at(previous) is not None:
            self.log.truncate(previous + 1)
        super()._appends(peer, term, now, previous=previous, **rest)


class ChangesManyAtOnce(Replica):
    def change(self, members, now):
        return self._lead_entry(Entry(self.term, members), now)


BROKEN = [
    VotesForAnybody, VotesTwice, CommitsAlone, SnapshotDropsWhatFollows, AcknowledgesWhatItLacks, CutsWhatItKnows,
    ChangesManyAtOnce,
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_replica_is_found(broken, monkeypatch):
    monkeypatch.setattr(raft, "Replica", broken)
    for seed in DEFAULT:
        try:
            Simulation(seed, election, safe=True).run()
        except Violation:
            return
    pytest.fail(f"no schedule found anything wrong with {broken.__name__}")
