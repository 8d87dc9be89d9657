"""Reports that a peer sends: again while their iteration is open, once where it is committed already."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from node_lab import LIMITS, report_on

from neuro_cli.evolve import reporter as module
from neuro_cli.evolve.reporter import Reporter


@pytest.fixture
def peer(monkeypatch) -> Any:
    """Peer "me" that follows "leader": its reporter, its ledger, the list of what was sent, and a clock that a test moves."""
    clock, sent = SimpleNamespace(now=100.0, monotonic=lambda: clock.now), []
    monkeypatch.setattr(module, "time", clock)
    entered = Event()
    entered.set()
    state = SimpleNamespace(me="me", entered=entered, election=SimpleNamespace(leader="leader", finished=lambda: None))
    connections = SimpleNamespace(send=lambda to, message: sent.append(message["i"]))
    ledger, leader = SimpleNamespace(limits=LIMITS, next=5), SimpleNamespace(decide=lambda: None)
    made: Any = (state, connections, ledger, leader)
    return SimpleNamespace(reporter=Reporter(*made), ledger=ledger, sent=sent, clock=clock, state=state)


def later(peer: Any, seconds: float) -> None:
    peer.clock.now += seconds
    peer.reporter.send_again(peer.clock.now)


def test_an_open_report_is_sent_again_and_a_committed_one_is_not(peer):
    peer.reporter.submit(report_on("me", 5))
    later(peer, 1.0)
    assert peer.sent == [5]
    later(peer, 1.5)
    assert peer.sent == [5, 5]
    peer.ledger.next = 6
    later(peer, 20.0)
    assert peer.sent == [5, 5]


def test_a_late_report_is_sent_once_as_soon_as_there_is_a_leader(peer):
    peer.ledger.next, peer.state.election.leader = 6, None
    peer.reporter.submit(report_on("me", 5))
    assert peer.sent == []
    peer.state.election.leader = "leader"
    later(peer, 2.5)
    later(peer, 20.0)
    assert peer.sent == [5]
    peer.reporter.submit(report_on("me", 4))  # two iterations late
    assert peer.sent == [5]
