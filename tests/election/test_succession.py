"""Succession among peers in memory: one leader after any loss, down to the last; the longer history stands after a split."""

import random
from typing import Any

import pytest

from neuro_cli.election.succession import Succession


class Clock:
    now = 0.0


class Host:
    """A peer without a network thread: its history is a list of contents."""

    def __init__(self, net: "Net", name: str) -> None:
        self.net, self.name, self.history = net, name, []
        self.election = Succession(0.1, 0.6, 1.4)
        self.election.draw = random.Random(f"{net.seed} {name}")

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self.net.mail.append((self.name, peer, message))

    def commit(self, content: bytes) -> None:
        self.history.append(content)

    def position(self) -> tuple[int, bytes]:
        return len(self.history), b"".join(self.history)[-8:]

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        self.history = list(self.net.hosts[source].history)

    def now(self) -> float:
        return self.net.clock.now

    def has(self, position: int, head: bytes) -> bool:
        return len(self.history) >= position

    def removed(self, leader) -> None:
        self.removed_by = leader

    def wanted(self, peers: list[str]) -> None:
        pass


class Net:
    def __init__(self, names: str, clock: Clock, seed: int = 0) -> None:
        self.clock, self.mail, self.seed = clock, [], seed
        self.hosts = {name: Host(self, name) for name in names}
        self.dead: set[str] = set()
        self.sides: list[set[str]] = [set(names)]
        for host in self.hosts.values():
            host.election.start(host, host.name, sorted(names), 0, newcomer=False)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.02)):
            self.clock.now += 0.02
            for name in sorted(set(self.hosts) - self.dead):
                self.hosts[name].election.tick()
            mail, self.mail = self.mail, []
            for source, target, message in mail:
                if target not in self.dead and source not in self.dead and any({source, target} <= side for side in self.sides):
                    self.hosts[target].election.receive(source, message)

    def leaders(self, among: set[str] | None = None) -> set[str | None]:
        return {self.hosts[name].election.leader for name in (among or set(self.hosts)) - self.dead}

    def work(self, content: bytes) -> None:
        for name in set(self.hosts) - self.dead:
            if self.hosts[name].election.can_commit:
                self.hosts[name].election.propose(content + name.encode())
        self.run(0.1)


@pytest.fixture
def clock():
    return Clock()


@pytest.mark.parametrize("seed", range(10))
def test_one_leader_after_any_loss_down_to_the_last(seed, clock):
    net = Net("abcde", clock, seed)
    draw = random.Random(seed)
    for step in range(5):
        net.run(4.0)
        (leader,) = net.leaders()
        assert leader in set(net.hosts) - net.dead
        net.work(b"%d" % step)
        alive = set(net.hosts) - net.dead
        histories = {tuple(net.hosts[name].history) for name in alive}
        assert len(histories) == 1
        assert len(next(iter(histories))) == step + 1
        net.dead.add(leader if draw.random() < 0.6 else draw.choice(sorted(alive)))


@pytest.mark.parametrize("seed", range(10))
def test_after_a_split_the_longer_history_stands(seed, clock):
    net = Net("abcde", clock, seed)
    net.run(4.0)
    net.work(b"0")
    net.sides = [{"a", "b"}, {"c", "d", "e"}]
    net.run(4.0)
    assert all(len(net.leaders(side)) == 1 for side in net.sides)
    busy = next(iter(net.leaders({"a", "b"})))
    for _ in range(3):  # one side does more than the other
        net.hosts[busy].election.propose(b"x")
        net.run(0.1)
    net.work(b"1")
    net.sides = [set("abcde")]
    net.run(6.0)
    assert len(net.leaders()) == 1
    histories = {tuple(host.history) for host in net.hosts.values()}
    assert len(histories) == 1
    assert len(next(iter(histories))) == 5
    net.work(b"2")
    assert {len(host.history) for host in net.hosts.values()} == {6}


def test_a_newcomer_is_known_to_all_at_once(clock):
    net = Net("ab", clock)
    net.run(4.0)
    (leader,) = net.leaders()
    net.hosts["c"] = Host(net, "c")
    net.sides = [set("abc")]
    done = []
    net.hosts["c"].election.start(net.hosts["c"], "c", ["a", "b", "c"], 1, newcomer=True)
    net.hosts[leader].election.add("c", done.append)
    net.run(1.0)
    assert done == [True]
    assert {tuple(host.election.members) for host in net.hosts.values()} == {("a", "b", "c")}
    assert net.leaders() == {leader}
