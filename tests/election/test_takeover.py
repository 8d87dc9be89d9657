"""A leader of takeover that waits for what others have, and says what it went on without."""

from typing import Any

import pytest

from neuro_cli.election.takeover import SECONDS, FirstToFinish


class Host:
    """A peer that is connected with two others; its port is free."""

    def __init__(self) -> None:
        self.time, self.records, self.fetched = 0.0, [b"one"], list[tuple[int, str | None]]()

    def now(self) -> float:
        return self.time

    def position(self) -> tuple[int, bytes]:
        return len(self.records), self.records[-1]

    def commit(self, content: bytes) -> None:
        self.records.append(content)

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        self.fetched.append((position, source))

    def stop_fetching(self) -> None: ...

    def send(self, peer: str, message: dict[str, Any]) -> None: ...

    def wanted(self, peers: list[str]) -> None: ...

    def open_port(self, port: int) -> str:
        return ""

    def close_port(self) -> None: ...

    def knock(self, port, peers, answered) -> None:
        answered([])


@pytest.fixture
def leader():
    host, election = Host(), FirstToFinish(29517)
    election.start(host, "a", ["a", "b", "c"], 1, newcomer=False)
    for peer in ("b", "c"):
        election.connected(peer, True)
    election.finished()
    host.time = 1.0
    election.tick()
    assert election.leads
    return election, host


def test_it_commits_when_all_have_said_how_far_they_are_and_what_it_lacks_is_there(leader, caplog):
    election, host = leader
    election.propose(b"early")
    election.receive("b", {"type": "level"})
    election.receive("c", {"type": "ahead", "position": 2, "head": b"two"})
    election.propose(b"too early")
    assert (host.records, host.fetched) == ([b"one"], [(2, "c")])
    host.records.append(b"two")  # fetched
    election.propose(b"three")
    assert host.records == [b"one", b"two", b"three"]
    assert "without what others may have" not in caplog.text


def test_nothing_is_waited_for_that_only_a_peer_had_which_died(leader):
    election, _ = leader
    election.receive("b", {"type": "level"})
    election.receive("c", {"type": "ahead", "position": 2, "head": b"two"})
    assert not election.can_commit
    election.connected("c", False)
    assert election.can_commit


def test_what_it_goes_on_without_is_named_once(leader, caplog):
    election, host = leader
    election.receive("c", {"type": "ahead", "position": 3, "head": b"three"})
    host.time += SECONDS
    for content in (b"own", b"another"):
        election.propose(content)
    assert host.records == [b"one", b"own", b"another"]
    said = "leads after 10 s without what others may have: 1 did not answer, the longest history is 3, ours 1"
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [said]
