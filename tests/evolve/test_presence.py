"""Who is removed for silence: a peer that stood still itself does not take others for dead."""

from types import SimpleNamespace

import pytest

from neuro_cli.evolve.heartbeat import Heartbeat


class Node:
    """What :class:`Heartbeat` needs of a node that leads three others."""

    def __init__(self) -> None:
        self.me, self.removed, self.dropped = "a", [], []
        self.settings = SimpleNamespace(grace=10.0)
        self.connections = SimpleNamespace(connected={"b", "c"}, drop=self.dropped.append)
        self.election = SimpleNamespace(
            members=["a", "b", "c"], can_commit=True, leader="a", can_remove=lambda peer: True,
            remove=lambda peer, done: self.removed.append(peer),
        )  # fmt: skip


@pytest.fixture
def presence(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("neuro_cli.evolve.heartbeat.time.monotonic", lambda: clock.now)
    found = Heartbeat(Node())
    found.begin(["a", "b", "c"])
    found.clock = clock
    return found


def pass_time(presence, seconds, *speaking):
    for _ in range(seconds):
        presence.clock.now += 1.0
        for peer in speaking:
            presence.heard(peer)
        presence.watch(presence.clock.now)


def test_the_silent_one_is_removed(presence):
    pass_time(presence, 12, "b")
    assert presence._node.removed == ["c"]


def test_a_leader_that_slept_removes_nobody(presence):
    pass_time(presence, 3, "b", "c")
    presence.clock.now += 25.0
    presence.watch(presence.clock.now)  # before it has read what the others said meanwhile
    assert presence._node.removed == []
    assert presence._node.dropped == []
    pass_time(presence, 12, "b")
    assert presence._node.removed == ["c"], "who is silent after that is removed all the same"
