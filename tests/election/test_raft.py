"""Raft as a node uses it: members that come and go, changes taken back, the place handed over."""

import random

import pytest

from neuro_cli.election.raft import Raft


class Host:
    """A peer whose ledger is a list of contents."""

    def __init__(self, net: "Net", name: str, ledger: list[bytes]) -> None:
        self.net, self.name, self.ledger = net, name, ledger
        self.election = Raft(0.1, 0.4, 0.8, net.keep)
        self.election.draw = random.Random(name)

    def now(self) -> float:
        return self.net.now

    def send(self, peer, message) -> None:
        self.net.mail.append((self.name, peer, message))

    def commit(self, content) -> None:
        if content not in self.ledger:
            self.ledger.append(content)

    def position(self):
        return len(self.ledger), b"".join(self.ledger)[-8:]

    def has(self, position, head) -> bool:
        return len(self.ledger) >= position

    def fall_back(self, position, head, source) -> None:
        self.ledger[:] = self.net.hosts[source].ledger

    def removed(self, leader) -> None:
        self.removed_by = leader

    def wanted(self, peers) -> None:
        self.wants = set(peers)


class Net:
    """``lost``: names that neither send nor receive."""

    def __init__(self, keep: int = 10) -> None:
        self.now, self.keep, self.mail, self.lost = 0.0, keep, [], set()
        self.hosts: dict[str, Host] = {}
        self.open("a", [], ["a"], newcomer=False)
        self.run(0.1)

    def open(self, name: str, ledger: list[bytes], members: list[str], newcomer: bool = True) -> Host:
        host = self.hosts[name] = Host(self, name, ledger)
        host.election.start(host, name, members, 1, newcomer)
        return host

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.02)):
            self.now += 0.02
            for name, host in self.hosts.items():
                if name not in self.lost:
                    for other in set(self.hosts) - {name}:
                        host.election.connected(other, other not in self.lost and other in host.wants)
                    host.election.tick()
            for _ in range(3):
                mail, self.mail = self.mail, []
                for source, target, message in mail:
                    if not {source, target} & self.lost and target in self.hosts:
                        self.hosts[target].election.receive(source, message)

    def join(self, name: str, ledger: list[bytes] | None = None) -> list[bool]:
        leader, done = self.leader, []
        self.open(name, list(leader.ledger) if ledger is None else ledger, sorted({*leader.election.members, name}))
        leader.election.add(name, done.append)
        self.run(1.0)
        return done

    @property
    def leader(self) -> Host:
        (found,) = [host for name, host in self.hosts.items() if name not in self.lost and host.election.can_commit]
        return found

    def work(self, count: int) -> None:
        for _ in range(count):
            self.leader.election.propose(b"%d" % len(self.leader.ledger))
            self.run(0.1)


def test_a_founder_leads_at_once_and_commits_alone():
    net = Net()
    net.work(2)
    assert net.hosts["a"].ledger == [b"0", b"1"]


def test_newcomers_are_let_in_and_all_have_the_same():
    net = Net()
    net.work(1)
    assert [net.join(name) for name in "bcd"] == [[True]] * 3
    net.work(30)  # beyond `keep`: the log is compacted
    assert {tuple(host.ledger) for host in net.hosts.values()} == {tuple(net.leader.ledger)}
    assert len(net.leader.ledger) == 31
    assert net.leader.election.replica.log.base > 10
    assert all(host.election.members == list("abcd") for host in net.hosts.values())
    net.join("e")
    net.work(1)
    assert net.hosts["e"].ledger == net.leader.ledger


def test_an_addition_that_cannot_be_committed_is_taken_back():
    net = Net()
    net.work(1)
    outcome: list[bool] = []
    net.lost.add("b")  # it dies at the moment in which it is let in
    net.open("b", [], ["a", "b"])
    leader = net.hosts["a"]
    leader.election.add("b", outcome.append)
    net.run(6.0)
    assert outcome == [False]
    assert leader.election.members == ["a"]
    net.work(1)
    assert leader.ledger == [b"0", b"1"]


def test_two_members_shrink_to_one():
    net = Net()
    net.join("b")
    net.lost.add(next(name for name in "ab" if net.hosts[name] is not net.leader))
    net.run(0.1)
    (left,) = set("ab") - net.lost
    election = net.hosts[left].election
    assert not election.can_commit
    assert election.can_remove(*net.lost)
    election.remove(*net.lost, lambda done: None)
    net.run(0.5)
    net.work(1)
    assert election.members == [left]


def test_a_removal_that_would_leave_too_few_waits():
    net = Net()
    net.join("b")
    net.join("c")
    leader = net.leader.name
    follower, other = sorted(set("abc") - {leader})
    net.lost.add(follower)
    net.run(0.2)
    done: list[bool] = []
    net.leader.election.remove(other, done.append)  # of the two who stay one is dead
    net.run(0.5)
    assert done == []
    assert net.leader.election.members == list("abc")
    net.lost.clear()
    net.run(2.0)
    assert done[-1:] in ([True], [False])


@pytest.mark.parametrize("others", ["b", "bc"])
def test_a_leader_that_leaves_removes_itself(others):
    net = Net()
    for name in others:
        net.join(name)
    net.work(3)
    before, done = net.leader, list[bool]()
    before.election.resign(lambda: done.append(True))
    net.run(0.3)
    assert done == [True]
    net.lost.add(before.name)  # it ends
    net.run(3.0)
    assert net.leader is not before
    assert net.leader.election.members == sorted({"a", *others} - {before.name})
    net.work(1)
    assert {len(host.ledger) for name, host in net.hosts.items() if name != before.name} == {4}


def test_a_leader_that_too_few_answer_steps_down():
    net = Net()
    for name in "bcde":
        net.join(name)
    leader = net.leader
    net.lost |= set("abcde") - {leader.name}
    net.run(3.0)
    assert leader.election.leader is None
    net.lost.clear()
    net.run(3.0)
    net.work(1)


def test_whoever_wants_a_vote_is_connected_with():
    """A candidate that this peer's log does not know yet may need its vote (found by simulation)."""
    net = Net()
    net.join("b")
    host = net.hosts["b"]
    net.lost.add("a")
    net.run(2.0)
    host.election.receive("z", {"type": "ask", "term": 9, "last": 99, "last_term": 8, "pre": False})
    assert "z" in host.wants
    net.run(12.0)
    assert "z" not in host.wants, "a stranger that says nothing more is given up"


def test_who_was_removed_hears_of_it_from_any_member():
    """Also where the present leader came later and is unknown to it (found by simulation)."""
    net = Net()
    for name in "bcd":
        net.join(name)
    lost = min(set("abcd") - {net.leader.name})
    net.lost.add(lost)
    net.leader.election.remove(lost, lambda done: None)
    net.run(1.0)
    net.lost.clear()
    host = net.hosts[lost]
    net.run(3.0)
    assert host.removed_by == net.leader.name
