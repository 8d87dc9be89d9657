"""The published takeover under simulated faults, on one to three machines; and what it promises on one machine."""

from collections.abc import Sequence

import pytest
from simulation import Ledger, Peer, Simulation, Violation, Weather

from neuro_cli.election.takeover import FirstToFinish

PORT, PARTS = 29517, 2
# schedules: with the later ones they find every broken election below
DEFAULT, TRUSTED, SLOW = (*range(40), *range(200, 215)), (*range(30), *range(155, 165)), 40_000


def election() -> FirstToFinish:
    return FirstToFinish(PORT)


def run(seeds: Sequence[int], made=election) -> None:
    for seed in seeds:
        try:
            Simulation(seed, made, safe=False, machines=1 + seed % 3).run()
        except Exception as error:
            raise AssertionError(f"schedule {seed}: {error}") from error


def test_every_schedule_ends_with_one_leader_and_the_longest_history():
    run(DEFAULT)
    run(range(36_737, 36_738))  # a leader that fetches from a peer that died gives up after 60 tries, and commits


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_schedules_end_so(part):
    count = SLOW // PARTS
    run(range(part * count, (part + 1) * count))
    trusted(range(part * count // 4, (part + 1) * count // 4))


class Trusted(Simulation):
    """One machine with a sound network: processes die, leave and join, and what a living one has committed stays."""

    def __init__(self, seed: int, made) -> None:
        super().__init__(seed, made, safe=False, machines=1)
        kinds = self.draw.sample(["kill", "kill and join", "join", "leave"], self.draw.randint(1, 4))
        self.weather = Weather(0.0, 0.0, 0.5, 0.4, self.draw.choice([0.5, 1.5, 4.0]), kinds)

    def _deliver(self, source: str, target: str, message) -> None:
        """A process that dies has told some, and others not."""
        if self.peers[source].alive or self.draw.random() < 0.5:
            super()._deliver(source, target, message)

    def transfer(self, theirs: Ledger, peer: Peer, end) -> None:
        """What is on its way when its sender dies still arrives."""
        sent, number = Ledger(list(theirs.records), list(theirs.heads)), peer.fetches

        def arrive() -> None:
            if peer.alive and peer.fetches == number:
                before = peer.ledger.head
                self.copy(sent, peer)
                self.late |= self.calm and peer.ledger.head != before
                end()

        self.later(self.delay(), arrive)

    def copy(self, theirs, peer: Peer) -> None:
        count = len(peer.ledger.records)
        if peer.name in self.peers and count <= len(theirs.records) and theirs.heads[count] != peer.ledger.head:
            raise Violation(f"{peer.name} has {count} iterations, and another history takes their place")
        super().copy(theirs, peer)

    def _check(self, peer: Peer) -> None:
        super()._check(peer)
        leads = [one.name for one in self._able() if one.election.leads]
        if len(leads) > 1:
            raise Violation(f"{leads} lead on one machine")


def trusted(seeds: Sequence[int], made=election) -> None:
    for seed in seeds:
        try:
            Trusted(seed, made).run()
        except Exception as error:
            raise AssertionError(f"schedule {seed}: {error}") from error


def test_on_one_machine_one_peer_leads_and_no_iteration_of_a_survivor_is_undone():
    trusted(TRUSTED)


class CommitsAtOnce(FirstToFinish):
    """Takes the place, and does not ask how far the others are."""

    @property
    def can_commit(self) -> bool:
        return self.leads


class FetchesOn(FirstToFinish):
    """Takes what it had asked another peer for after it has told the new leader how far it is, or leads itself."""

    def start(self, host, *arguments):
        host.stop_fetching = lambda: None
        super().start(host, *arguments)


class ForgetsWhomItRemoved(FirstToFinish):
    def _remember(self, peer):
        pass

    def _replace_members(self, members):
        self._members = members
        self.host.wanted(sorted(members))


class WaitsForCommitsThatCameTwice(FirstToFinish):
    """A commit that changes nothing ends the wait for the leader: found while this election was written."""

    def _commit(self, content):
        self.host.commit(content)
        self._since, self._due = self.host.now(), float("inf")


@pytest.mark.parametrize(
    ("broken", "schedules"),
    [(CommitsAtOnce, trusted), (FetchesOn, trusted), (ForgetsWhomItRemoved, run), (WaitsForCommitsThatCameTwice, run)],
)
def test_a_broken_election_is_found(broken, schedules):
    with pytest.raises(AssertionError, match=r"schedule \d+: "):
        schedules(DEFAULT if schedules is run else TRUSTED, lambda: broken(PORT))
