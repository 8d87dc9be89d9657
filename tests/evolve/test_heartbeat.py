"""Removal of silent members: a peer that was suspended itself does not take others for dead."""

from types import SimpleNamespace

import pytest

from neuro_cli.evolve.members.heartbeat import Heartbeat


class Node:
    """Part of a node that :class:`Heartbeat` needs, leading two others."""

    def __init__(self) -> None:
        self.me, self.removed, self.dropped = "a", [], []
        self.settings = SimpleNamespace(grace=10.0)
        self.connections = SimpleNamespace(connected={"b", "c"}, drop=self.dropped.append)
        self.election = SimpleNamespace(
            members=["a", "b", "c"], can_commit=True, leader="a", can_remove=lambda peer: True,
            remove=lambda peer, done: self.removed.append(peer),
        )  # fmt: skip


@pytest.fixture
def heartbeat(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("neuro_cli.evolve.members.heartbeat.time.monotonic", lambda: clock.now)
    found = Heartbeat(Node())
    found.begin(["a", "b", "c"])
    found.clock = clock
    return found


def pass_time(heartbeat, seconds, *speaking):
    for _ in range(seconds):
        heartbeat.clock.now += 1.0
        for peer in speaking:
            heartbeat.heard(peer)
        heartbeat.watch(heartbeat.clock.now)


def test_the_silent_one_is_removed(heartbeat):
    pass_time(heartbeat, 12, "b")
    assert heartbeat._node.removed == ["c"]


def test_a_leader_that_slept_removes_nobody(heartbeat):
    pass_time(heartbeat, 3, "b", "c")
    heartbeat.clock.now += 25.0
    heartbeat.watch(heartbeat.clock.now)  # before it has read what the others said meanwhile
    assert heartbeat._node.removed == []
    assert heartbeat._node.dropped == []
    pass_time(heartbeat, 12, "b")
    assert heartbeat._node.removed == ["c"], "who is silent after that is removed all the same"
