"""Deterministic simulation of an election: peers in virtual time, a network that delays, doubles, reorders, loses and splits.

A schedule is a function of its seed. After every step the invariants of Raft (Ongaro and Ousterhout 2014, figure 3) are
checked: election safety, log matching, leader completeness, state machine safety; and that what a leader counts as
acknowledged is in the log of whoever acknowledged it. The peers are :class:`Election` objects as a node uses them; the ledger
and the fetching of iterations from others are modelled here (``neuro_cli.evolve`` has its own tests).
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from neuro_cli.election.base import Election
from neuro_cli.election.raft_log import Entry, Log

TICK, GRACE, AGAIN = 0.08, 3.0, 0.4  # seconds: between ticks of a peer; of silence before a removal; before a second proposal
ENTRY = 2.0  # seconds in which a newcomer is let in, or asks again
REFUSALS = 12  # of a leader, a tick each, before a peer takes it that it was removed
SILENT = 0.3  # seconds until a peer notices that another is out of reach


class Violation(AssertionError):  # noqa: N818 (it is what is looked for)
    """An invariant does not hold."""


@dataclass
class Ledger:
    """Committed records, each naming its place and the hash of all before it."""

    records: list[bytes] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=lambda: [b"origin"])

    @property
    def head(self) -> bytes:
        return self.heads[-1]

    def next_record(self, payload: str) -> bytes:
        return b"%d|%s|%s" % (len(self.records), self.head.hex().encode(), payload.encode())

    def offer(self, record: bytes) -> str:
        place, parent, _ = record.split(b"|", 2)
        if int(place) != len(self.records):
            return "duplicate" if int(place) < len(self.records) else "gap"
        if parent != self.head.hex().encode():
            return "fork"
        self.records.append(record)
        self.heads.append(blake2b(self.head + record, digest_size=8).digest())
        return "applied"


class WatchedLog(Log):
    """Reports every entry to the simulation (log matching)."""

    world: "Simulation"

    def append(self, entry: Entry) -> None:
        before = self.last_term
        super().append(entry)
        known = self.world.entries.setdefault((self.last, entry.term), (entry.content, before))
        if known != (entry.content, before):
            raise Violation(f"log matching: index {self.last} of term {entry.term} is {known} and {(entry.content, before)}")


class Peer:
    """A node reduced to what its election needs of it (:class:`neuro_cli.election.base.Host`)."""

    def __init__(self, world: "Simulation", name: str, ledger: Ledger) -> None:
        self.world, self.name, self.ledger = world, name, ledger
        self.election: Election = world.elections()
        self.election.draw = random.Random(f"{world.seed} {name}")
        self.alive, self.started, self.paused_until, self.leaving = True, False, 0.0, False
        self.admitted = False
        self.wants: set[str] = set()
        self.there: dict[str, float] = {}  # connected peers, and since when they are out of reach (inf: they are not)
        self.last_word: dict[str, float] = {}
        self.proposed = (-1, 0.0)
        self.fetching: str | None = None
        self.fetches = 0  # begun or stopped so far
        self.committed = self.led = self.ticks = self.refusals = 0
        self.finished = -1  # iteration that its worker has finished

    def start(self, members: list[str], term: int, newcomer: bool) -> None:
        self.election.start(self, self.name, members, term, newcomer)
        self.started = True
        log = getattr(getattr(self.election, "_replica", None), "log", None)
        if log is not None:
            log.__class__ = WatchedLog
            log.world = self.world

    # Host

    def now(self) -> float:
        return self.world.now

    def send(self, peer: str, message: dict[str, Any]) -> None:
        if peer in self.there:
            self.world.post(self.name, peer, message)

    def commit(self, content: bytes) -> None:
        outcome = self.ledger.offer(content)
        if outcome == "applied":
            self.world.applied(self, content)
        elif outcome == "gap":
            self.fall_back(len(self.ledger.records) + 1, b"", None)
        elif outcome == "fork":
            self.world.fork(self, content)
            self.fall_back(len(self.ledger.records), b"", self.election.leader)

    def position(self) -> tuple[int, bytes]:
        return len(self.ledger.records), self.ledger.head

    def has(self, position: int, head: bytes) -> bool:
        return len(self.ledger.records) >= position and self.ledger.heads[position] == head

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        if self.fetching is None and not (head and self.has(position, head)):
            self.fetching = source or ""
            self.fetches += 1
            number = self.fetches
            self.world.later(self.world.delay() + self.world.delay(), lambda: self.world.fetch(self, source, position, number))

    def stop_fetching(self) -> None:
        self.fetching = None
        self.fetches += 1

    def removed(self, leader: str) -> None:
        self.refusals += REFUSALS // 3

    def wanted(self, peers: list[str]) -> None:
        self.wants = set(peers) - {self.name}

    # a leader port, which one process of a machine holds

    @property
    def machine(self) -> int:
        return int(self.name[1:]) % self.world.machines

    def open_port(self, port: int) -> str:
        holder = self.world.ports.get(self.machine)
        if holder is not None and holder is not self and holder.alive:
            return "Address already in use"
        self.world.ports[self.machine] = self
        return ""

    def close_port(self) -> None:
        if self.world.ports.get(self.machine) is self:
            del self.world.ports[self.machine]

    def knock(self, port: int, peers: list[str], answered: Callable[[list[tuple[str, dict[str, Any]]]], None]) -> None:
        machines = {self.world.peers[peer].machine for peer in peers if peer in self.world.peers} | {self.machine}
        self.world.later(self.world.delay() + self.world.delay(), lambda: self.world.answer(self, machines, answered))


@dataclass
class Weather:
    """Chances and times of a schedule, drawn from its seed."""

    loss: float
    twice: float
    slow: float  # share of messages that take long
    slowest: float  # seconds
    faults: float  # a second
    kinds: list[str]

    @classmethod
    def drawn(cls, draw: random.Random, kinds: list[str]) -> "Weather":
        return cls(
            draw.choice([0.0, 0.02, 0.1, 0.25]), draw.choice([0.0, 0.05, 0.3]), draw.choice([0.0, 0.05, 0.3]),
            draw.choice([0.3, 1.0, 3.0]), draw.choice([0.5, 1.5, 4.0]), draw.sample(kinds, draw.randint(1, len(kinds))),
        )  # fmt: skip


FAULTS = ["split", "one way", "pause", "kill", "join", "leave", "kill and join", "pause and kill", "cut off with newcomers"]


class Simulation:
    """``elections()`` makes an election; ``safe``: a fork is a violation (takeover allows it and takes it back)."""

    def __init__(self, seed: int, elections: Callable[[], Election], safe: bool, seconds: float = 4.0, machines: int = 1) -> None:
        self.seed, self.elections, self.safe, self.seconds = seed, elections, safe, seconds
        self.machines, self.ports = machines, dict[int, Peer]()
        self.draw = random.Random(seed)
        self.now, self._order = 0.0, 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self.weather = Weather.drawn(self.draw, FAULTS)
        self.peers: dict[str, Peer] = {}
        self.blocked: set[tuple[str, str]] = set()  # (from, to)
        self.entries: dict[tuple[int, int], tuple[Any, int]] = {}  # (index, term): content, term before
        self.leaders: dict[int, str] = {}  # of a term
        self.agreed: dict[int, tuple[int, int]] = {}  # committed index: term of the entry, of the replica that committed it
        self.records: list[bytes] = []  # committed contents by place
        self.steps = self.working = 0
        self.calm = self.late = False  # late: a commit of the storm, or a fetch, came in the calm
        names = [f"p{number}" for number in range(self.draw.randint(3, 7))]
        self._count = len(names)
        for name in names:
            self.peers[name] = Peer(self, name, Ledger())
        for name in names:
            self.peers[name].admitted = True
            self.peers[name].start(names, 0, newcomer=False)
            self._tick_later(self.peers[name], self.draw.uniform(0, TICK))
        self.later(self.draw.expovariate(self.weather.faults), self._fault)

    # time and network

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.now + seconds, self._order, action))

    def delay(self) -> float:
        if not self.calm and self.draw.random() < self.weather.slow:
            return self.draw.uniform(0.0, self.weather.slowest)
        return self.draw.uniform(0.001, 0.02)

    def post(self, source: str, target: str, message: dict[str, Any]) -> None:
        if not self.calm and self.draw.random() < self.weather.loss:
            return
        for _ in range(1 + (not self.calm and self.draw.random() < self.weather.twice)):
            self.later(self.delay(), lambda: self._deliver(source, target, message))

    def _deliver(self, source: str, target: str, message: dict[str, Any]) -> None:
        peer = self.peers[target]
        if not peer.alive or not peer.started or (source, target) in self.blocked:
            return
        if peer.paused_until > self.now:
            self.later(peer.paused_until - self.now + 0.001, lambda: self._deliver(source, target, message))
            return
        peer.last_word[source] = self.now
        peer.election.receive(source, message)
        peer.election.tick()
        self._check(peer)

    def _reaches(self, source: str, target: str) -> bool:
        other = self.peers[target]
        return other.alive and (source, target) not in self.blocked and (target, source) not in self.blocked

    def answer(self, peer: Peer, machines: set[int], answered: Callable[[list[tuple[str, dict[str, Any]]]], None]) -> None:
        """What the leader ports of ``machines`` say; a process that sleeps or is cut off does not answer."""
        if peer.paused_until > self.now:
            self.later(peer.paused_until - self.now + 0.001, lambda: self.answer(peer, machines, answered))
            return
        words = []
        for machine in sorted(machines & self.ports.keys()):
            leader = self.ports[machine]
            word = leader.election.word() if leader.started else None
            if word is not None and self._reaches(peer.name, leader.name) and leader.paused_until <= self.now:
                words.append((leader.name, word))
        if peer.alive:
            answered(words)

    def fetch(self, peer: Peer, source: str | None, position: int, number: int, attempt: int = 0) -> None:
        """What ``neuro_cli.evolve`` does: take the iterations that are lacked from the source, the leader, or any other."""
        if not peer.alive or not peer.started or peer.fetches != number:
            return
        others = [name for name in (source, peer.election.leader, *sorted(peer.there)) if name and name != peer.name]
        name = others[attempt % len(others)] if others else None

        def end() -> None:
            if len(peer.ledger.records) >= position or attempt >= 60:
                peer.fetching = None
            else:
                self.later(0.2 + self.delay(), lambda: self.fetch(peer, source, position, number, attempt + 1))

        if name is not None and self._reaches(peer.name, name) and self.peers[name].paused_until <= self.now:
            self.transfer(self.peers[name].ledger, peer, end)
        else:
            end()

    def transfer(self, theirs: Ledger, peer: Peer, end: Callable[[], None]) -> None:
        """Copy at once. A subclass may let it take time, in which who sends it may die."""
        self.copy(theirs, peer)
        end()

    def copy(self, theirs: Ledger, peer: Peer) -> None:
        mine = peer.ledger
        count = len(mine.records)
        if count > len(theirs.records):
            return
        if theirs.heads[count] != mine.head:
            if self.safe:
                raise Violation(f"{peer.name}: its {count} iterations are no part of another's history")
            peer.ledger, count = Ledger(), 0
        for record in theirs.records[count:]:
            peer.ledger.offer(record)

    # a peer's own time

    def _tick_later(self, peer: Peer, seconds: float = TICK) -> None:
        self.later(seconds, lambda: self._tick(peer))

    def _tick(self, peer: Peer) -> None:
        if not peer.alive:
            return
        if peer.paused_until > self.now:
            self._tick_later(peer, peer.paused_until - self.now + 0.001)
            return
        peer.ticks += 1
        self._connect(peer)
        if peer.started and peer.alive:
            here = len(peer.ledger.records)
            if peer.finished != here and peer.ticks % 3 == 0:  # its worker has scored its members
                peer.finished = here
                peer.election.finished()
            peer.election.tick()
            if peer.ticks % 5 == 0:
                self._watch(peer)
            if peer.election.can_commit and not peer.leaving:
                self._propose(peer)
            self._check(peer)
        self._tick_later(peer)

    def _connect(self, peer: Peer) -> None:
        asks = self.safe and peer.started  # whether it was removed
        for name in sorted(peer.wants.union(peer.there)):
            reached = name in peer.wants and self._reaches(peer.name, name)
            if reached and asks and self._refuses(name, peer):
                reached = False
                peer.refusals += 1
            if reached and name not in peer.there:
                peer.there[name] = float("inf")
                peer.election.connected(name, True)
            elif not reached and name in peer.there:
                peer.there[name] = min(peer.there[name], self.now)
                if name not in peer.wants or self.now - peer.there[name] > SILENT:
                    del peer.there[name]
                    peer.election.connected(name, False)
            elif reached:
                peer.there[name] = float("inf")

        if peer.refusals > REFUSALS and peer.alive and peer.admitted:  # it joins again, as somebody new who knows the history
            peer.alive = False
            self._join(ledger=peer.ledger)

    def _refuses(self, name: str, peer: Peer) -> bool:
        """Whether a leader tells a peer that has started that it was removed."""
        other = self.peers[name]
        return other.started and other.election.can_commit and peer.name not in other.election.members

    def _watch(self, peer: Peer) -> None:
        """Remove members that are silent for long, as the leader; who is connected says something now and then (pings)."""
        for name in peer.there:
            if self._reaches(peer.name, name) and self.peers[name].paused_until <= self.now:
                peer.last_word[name] = self.now
        for name in peer.election.members:
            if name == peer.name or self.now - peer.last_word.setdefault(name, self.now) <= GRACE:
                continue
            if peer.election.can_remove(name):
                peer.last_word[name] = self.now
                peer.election.remove(name, lambda done: None)

    def _propose(self, peer: Peer) -> None:
        place, when = peer.proposed
        here = len(peer.ledger.records)
        if self.working and (place != here or self.now - when > AGAIN) and self.draw.random() < 0.5:
            peer.proposed = (here, self.now)
            peer.election.propose(peer.ledger.next_record(f"{peer.name} {self.now:.3f}"))

    # faults

    def _fault(self) -> None:
        if self.calm:
            return
        kind = self.draw.choice(self.weather.kinds)
        alive = [peer for peer in self.peers.values() if peer.alive and peer.started]
        victim = self.draw.choice(alive) if alive else None
        leads = [peer for peer in alive if peer.election.can_commit]
        if leads and self.draw.random() < 0.4:
            victim = self.draw.choice(leads)
        names = sorted(self.peers)
        if kind == "split":
            side = set(self.draw.sample(names, self.draw.randint(1, max(1, len(names) // 2))))
            pairs = {(a, b) for a in names for b in names if (a in side) != (b in side)}
            self._block(pairs, self.draw.uniform(0.2, 4.0))
        elif kind == "one way" and victim:
            pairs = {(victim.name, name) for name in names} if self.draw.random() < 0.5 else {(n, victim.name) for n in names}
            self._block(pairs, self.draw.uniform(0.2, 3.0))
        elif "pause" in kind and victim:
            victim.paused_until = self.now + self.draw.uniform(0.1, 5.0)
        elif kind == "leave" and victim and len(alive) > 2:
            self._leave(victim)
        if "kill" in kind and len(alive) > 2:
            killed = self.draw.choice(alive) if kind == "pause and kill" else victim
            assert killed is not None
            if self._may_die(killed) or self.draw.random() < 0.05:
                killed.alive = False
        elif kind == "cut off with newcomers" and len(self.peers) < 14:
            self._cut_off_with_newcomers()
        if "join" in kind and len(alive) < 7 and len(self.peers) < 16:
            self._join()
        self.later(self.draw.expovariate(self.weather.faults), self._fault)

    def _cut_off_with_newcomers(self) -> None:
        """Let several in at once, and soon after part the leader and them from all others."""
        old = set(self.peers)
        leads = {peer.name for peer in self.peers.values() if peer.alive and peer.started and peer.election.can_commit}
        for _ in range(self.draw.randint(1, 3)):
            self._join()

        def part() -> None:
            names = set(self.peers)
            side = (names - old) | leads
            self._block({(a, b) for a in names for b in names if (a in side) != (b in side)}, 4.0)

        self.later(self.draw.uniform(0.0, 0.2), part)

    def _block(self, pairs: set[tuple[str, str]], seconds: float) -> None:
        self.blocked |= pairs
        self.later(seconds, lambda: self.blocked.difference_update(pairs))

    def _may_die(self, victim: Peer) -> bool:
        """Whether those who stay are a majority of every set of members that a peer has in force."""
        alive = {peer.name for peer in self.peers.values() if peer.alive and peer is not victim}
        return all(2 * len(view & alive) > len(view) for view in self._views(self._able()))

    def _leave(self, peer: Peer) -> None:
        """Resign, ask the next leader to be removed, go."""
        peer.leaving = True

        def go() -> None:
            if peer.leaving:
                peer.alive = peer.alive and self.safe and not self._may_die(peer)
                peer.leaving = False

        peer.election.resign(go)

        def ask(attempt: int) -> None:
            if not peer.leaving:
                return  # the storm is over
            leader = peer.election.leader if peer.alive else None
            if peer.alive and leader not in (None, peer.name) and self.peers[leader].election.can_commit:
                self.peers[leader].election.remove(peer.name, lambda done: None)
            elif peer.alive and attempt < 20:
                self.later(0.2, lambda: ask(attempt + 1))
                return
            go()

        self.later(0.1, lambda: ask(0))

    def _join(self, attempt: int = 0, ledger: Ledger | None = None) -> None:
        """A newcomer, or one that died and comes back with its history under a new name: fetch, then ask the leader in."""
        able = [peer for peer in self.peers.values() if peer.alive and peer.started]
        leads = [peer for peer in able if peer.election.can_commit]
        if not leads or not able:
            if attempt < 10:
                self.later(0.3, lambda: self._join(attempt + 1, ledger))
            return
        leader = self.draw.choice(leads)
        dead = [peer for peer in self.peers.values() if not peer.alive]
        if ledger is None and dead and self.draw.random() < 0.4:
            ledger = self.draw.choice(dead).ledger
        self._count += 1
        newcomer = Peer(self, f"p{self._count}", Ledger() if ledger is None else Ledger(list(ledger.records), list(ledger.heads)))
        source = self.draw.choice(able).ledger
        self.copy(source, newcomer)
        if newcomer.ledger.head != source.head:
            return  # it has more than whom it asked, or another history: it is not let in
        self.peers[newcomer.name] = newcomer
        newcomer.start(sorted({*leader.election.members, newcomer.name}), leader.election.term, newcomer=True)
        self._tick_later(newcomer, self.delay())

        self._ask_in(newcomer, leader)

    def _ask_in(self, newcomer: Peer, leader: Peer) -> None:
        """Ask to be made a member, and ask again under the same name until that is said: its vote may be needed."""

        def entered(outcome: bool) -> None:
            newcomer.admitted, newcomer.refusals = newcomer.admitted or outcome, 0

        def again() -> None:
            if newcomer.alive and not newcomer.admitted:
                leads = [peer for peer in self._able() if peer.election.can_commit and peer is not newcomer]
                if leads:
                    self._ask_in(newcomer, self.draw.choice(leads))
                else:
                    self.later(0.3, again)

        leader.election.add(newcomer.name, entered)
        self.later(ENTRY, again)

    # invariants

    def applied(self, peer: Peer, content: bytes) -> None:
        place = len(peer.ledger.records) - 1
        self.late |= self.calm
        if not self.safe:
            return
        if place < len(self.records):
            if self.records[place] != content:
                raise Violation(f"state machine safety: iteration {place} is {self.records[place]!r} and {content!r}")
        elif place == len(self.records):
            self.records.append(content)
        else:
            raise Violation(f"iteration {place} is applied, {len(self.records)} are committed")

    def fork(self, peer: Peer, content: bytes) -> None:
        if self.safe:
            raise Violation(f"state machine safety: {peer.name} was given {content!r} as committed after {peer.ledger.head!r}")

    def _check(self, peer: Peer) -> None:
        self.steps += 1
        replica = getattr(peer.election, "_replica", None)
        if replica is None:
            return
        log = replica.log
        begin = peer.committed if peer.committed > log.base else log.base
        for index in range(begin + 1, replica.committed + 1):
            term = log.term_at(index)
            known = self.agreed.setdefault(index, (term, replica.term))
            if known[0] != term:
                raise Violation(f"state machine safety: {peer.name} commits index {index} of term {term}, it is of {known}")
        peer.committed = replica.committed
        if not replica.leads:
            return
        if self.leaders.setdefault(replica.term, peer.name) != peer.name:
            raise Violation(f"election safety: {peer.name} and {self.leaders[replica.term]} lead in term {replica.term}")
        if peer.led != replica.term:
            peer.led = replica.term
            self._check_complete(peer.name, replica)
        base = log.base
        for name, known in replica.progress.items():
            if known.match > base:
                self._check_acknowledged(name, known.match, replica)

    def _check_complete(self, name: str, replica: Any) -> None:
        """Leader completeness, by log matching of the last entry that was committed in an earlier term."""
        earlier = [index for index, (_, at) in self.agreed.items() if at < replica.term]
        if earlier and max(earlier) > replica.log.base and replica.log.term_at(max(earlier)) != self.agreed[max(earlier)][0]:
            raise Violation(f"leader completeness: {name} leads term {replica.term} without index {max(earlier)}")

    def _check_acknowledged(self, name: str, match: int, leader: Any) -> None:
        other = getattr(self.peers[name].election, "_replica", None)
        if other is None or other.term != leader.term or match <= other.log.base:
            return
        if other.log.term_at(match) != leader.log.term_at(match):
            raise Violation(f"{name} has acknowledged index {match} in term {leader.term} and does not have it")

    # a whole schedule

    def run_until(self, when: float) -> None:
        while self._events and self._events[0][0] <= when:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = when

    def run(self) -> "Simulation":
        """The storm, then calm weather until all agree. Raises Violation."""
        self.working = 1
        self.run_until(self.seconds)
        self.working, self.calm = 0, True
        self.blocked.clear()
        for peer in self.peers.values():
            peer.paused_until = 0.0
            peer.alive = peer.alive and not (peer.leaving and (not self.safe or self._may_die(peer)))
            peer.leaving = False
        if not self.recoverable() or not self._acquainted():
            return self
        before = max(len(peer.ledger.records) for peer in self._able())
        longest = {peer.ledger.head for peer in self._able() if len(peer.ledger.records) == before}
        for _ in range(120):
            self.run_until(self.now + 0.5)
            if self._agree():
                break
        else:
            if not self._acquainted() or not self.recoverable():
                return self  # an entry of a leader that died came late, and names members most of which are dead
            raise Violation(f"no agreement after {self.now:.0f} s: {self.state()}")
        histories = [peer.ledger for peer in self._members()]
        # nothing was proposed since, but a commit under way to a peer that was paused may have made another as long or longer
        gave_way = [len(found.records) < before or (not self.late and found.head not in longest) for found in histories[:1]]
        if not self.safe and any(gave_way):
            raise Violation("the longer history gave way to a shorter one")
        self.working = 1
        count = len(histories[0].records)
        # a peer that was paused ticks again within 5 s; one that fetches from a peer that has died gives up within 14 s; a new
        # leader of takeover waits 10 s for what a peer that has died said it had
        fetches = any(peer.fetching is not None for peer in self._able())
        for half_second in range(40):
            if half_second == 12 and not fetches and not self._leader_waits():
                break
            self.run_until(self.now + 0.5)
            members = self._members()
            if members and all(len(peer.ledger.records) > count for peer in members):
                return self
        raise Violation(f"nothing is committed in calm weather: {self.state()}")

    def _leader_waits(self) -> bool:
        """Whether a leader that asks nobody to agree does not commit yet."""
        leads = [peer.election for peer in self._able() if peer.election.leader == peer.name]
        return not self.safe and any(not election.can_commit for election in leads)

    def _able(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer.alive and peer.started]

    def _members(self) -> list[Peer]:
        """Those alive that the leader counts."""
        leads = [peer for peer in self._able() if peer.election.can_commit]
        members = set(leads[0].election.members) if leads else set()
        return [peer for peer in self._able() if peer.name in members]

    def recoverable(self) -> bool:
        """Whether of every set of members in a living peer's log a majority lives; for takeover, whether anybody does."""
        able = {peer.name for peer in self._able()}
        return bool(able) if not self.safe else all(2 * len(able & view) > len(view) for view in self._views(self._able()))

    def _acquainted(self) -> bool:
        """Whether the living are one group: a split whose common acquaintances have all died cannot be mended by anybody."""
        able = {peer.name: peer for peer in self._able()}
        group, edge = set[str](), [next(iter(able))]
        while edge:
            name = edge.pop()
            group.add(name)
            edge += [other for other in able if other not in group and (other in able[name].wants or name in able[other].wants)]
        return group == set(able)

    def _views(self, peers: list[Peer]) -> list[set[str]]:
        found = []
        for peer in peers:
            replica = getattr(peer.election, "_replica", None)
            found += [set(members) for members in (replica.memberships if replica else [peer.election.members])]
        return found

    def _agree(self) -> bool:
        leads = [peer for peer in self._able() if peer.election.can_commit]
        if len(leads) != 1:
            return False
        members = self._members()
        same = len({peer.ledger.head for peer in members}) == 1 and {peer.election.leader for peer in members} == {leads[0].name}
        return same and len(members) == len(self._able())

    def state(self) -> list[str]:
        found = []
        for peer in self._able():
            election = peer.election
            count, leader = len(peer.ledger.records), election.leader
            found.append(f"{peer.name}: {count} iterations, leader {leader} in {election.term}, {election.members}")
        return found
