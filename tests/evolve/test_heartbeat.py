"""Removal of silent members: a peer that was suspended itself does not take others for dead."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from neuro_cli.evolve.members.heartbeat import Heartbeat


class Peer:
    """State and connections of a peer that leads two others."""

    def __init__(self) -> None:
        self.removed, self.dropped = [], []
        self.connections = SimpleNamespace(connected={"b", "c"}, drop=self.dropped.append)
        self.election = SimpleNamespace(
            members=["a", "b", "c"], can_commit=True, leader="a", can_remove=lambda peer: True,
            remove=lambda peer, done: self.removed.append(peer),
        )  # fmt: skip
        self.state = SimpleNamespace(me="a", election=self.election, settings=SimpleNamespace(grace=10.0))


@pytest.fixture
def heartbeat(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("neuro_cli.evolve.members.heartbeat.time.monotonic", lambda: clock.now)
    peer = Peer()
    heartbeat = Heartbeat(peer.state, peer.connections, None, Path("run"))
    heartbeat.begin(["a", "b", "c"])
    heartbeat.clock, heartbeat.peer = clock, peer
    return heartbeat


def pass_time(heartbeat, seconds, *speaking):
    for _ in range(seconds):
        heartbeat.clock.now += 1.0
        for peer in speaking:
            heartbeat.heard(peer)
        heartbeat.watch(heartbeat.clock.now)


def test_the_silent_one_is_removed(heartbeat):
    pass_time(heartbeat, 12, "b")
    assert heartbeat.peer.removed == ["c"]


def test_a_leader_that_slept_removes_nobody(heartbeat):
    pass_time(heartbeat, 3, "b", "c")
    heartbeat.clock.now += 25.0
    heartbeat.watch(heartbeat.clock.now)  # before it has read what the others said meanwhile
    assert heartbeat.peer.removed == []
    assert heartbeat.peer.dropped == []
    pass_time(heartbeat, 12, "b")
    assert heartbeat.peer.removed == ["c"], "who is silent after that is removed all the same"


@pytest.mark.parametrize(("needed", "advice"), [(1, False), (2, False), (3, True)])
def test_force_new_is_advised_where_members_are_too_few(needed, advice, heartbeat, caplog, monkeypatch):
    """Beside a leader that sleeps on its port, the others of a takeover were told to give it up."""
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    peer = heartbeat.peer
    peer.election.can_commit, peer.election.leader, peer.election.needed = False, "c", needed
    peer.connections.connected = {"b"}
    pass_time(heartbeat, 14, "b")
    (line,) = {record.getMessage() for record in caplog.records if "no leader" in record.getMessage()}
    assert line.startswith("no leader: 2 of 3 members answer, ")
    assert ("force_new" in line) == advice
