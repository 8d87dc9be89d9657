"""One replica of Raft as a pure state machine: messages and time in, messages and committed entries out.

After figure 2 of Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (USENIX ATC 2014), with what
Ongaro's thesis ("Consensus: Bridging Theory and Practice", Stanford 2014) adds: membership changes one server at a time
(chapter 4, and the correction that a leader first commits an entry of its own term), leadership transfer (3.10), snapshots
(chapter 5), pre-vote (9.6), and a leader that steps down when it hears from too few (6.2).

Raft asks for a disk because a server comes back under its name. Here a name is never used again: a process that died joins
as a new member. So its term, vote and log live exactly as long as its name, and nothing is written.

Legend: a *snapshot* is a pointer into the ledger, which holds the outcome of the dropped entries and which a peer fetches by
itself. A follower takes the snapshot, and so acknowledges it, only when :attr:`Replica.has` says that its ledger goes as far.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from neuro_cli.election.messages import InvalidMessageError, checked
from neuro_cli.election.raft_log import Entry, Log
from neuro_cli.election.raft_messages import FIELDS, plain

logger = logging.getLogger(__name__)

FOLLOWER, STANDS_BEFORE, CANDIDATE, LEADER = "follower", "stands before", "candidate", "leader"
SIZE = 2**20  # bytes of entries in a message


@dataclass
class Timing:
    """Times in seconds: between two messages of a leader, and bounds of the silence after which a follower stands."""

    heartbeat: float
    shortest: float
    longest: float


@dataclass
class Progress:
    """Progress of a follower, as the leader knows it: it has the entries up to ``match``; ``next`` is sent next.

    ``answered``: time of its last answer.
    """

    next: int
    match: int
    answered: float


class Replica:
    """``committed`` grows; the owner takes entries up to it in order. ``outbox``: (peer, message) to be sent, may be lost.

    ``base``: 1 for founders of a cluster, 0 for a peer that is being admitted (its log begins with a snapshot).
    ``has(position, head)``: whether the ledger of this peer holds the iterations of a snapshot.
    """

    def __init__(
        self,
        me: str,
        members: tuple[str, ...],
        term: int,
        base: int,
        timing: Timing,
        draw: random.Random,
        has: Callable[[int, bytes], bool],
        position: tuple[int, bytes],
        now: float,
    ) -> None:
        self.me, self.term, self.has = me, term, has
        self._timing, self._draw = timing, draw
        self.log = Log(base, 0, members)
        self.committed = base
        self.position = position  # position of the ledger when the log was last compacted: a snapshot points there
        self.role = FOLLOWER
        self.leader: str | None = None
        self.vote: str | None = None
        self.progress: dict[str, Progress] = {}
        self.outbox: list[tuple[str, dict[str, Any]]] = []
        self.lacks: tuple[int, bytes, str] | None = None  # position, head, leader of a snapshot that was not taken
        self.removed_by: str | None = None  # leader of a cluster that has removed us
        self.successor: str | None = None
        self._before_snapshot: tuple[Log, int, tuple[int, bytes]] | None = None  # log, committed, position before a snapshot
        self._votes: set[str] = set()
        self._heard = float("-inf")  # time of the last message of a leader
        self._beat = self._transfer_ends = 0.0
        self._deadline = now if members == (me,) else self._later(now)

    # questions of the owner

    @property
    def members(self) -> tuple[str, ...]:
        return self.log.members

    @property
    def memberships(self) -> list[tuple[str, ...]]:
        """Last committed members, then those of every later entry that changes them."""
        return self.log.memberships_since(self.committed)

    @property
    def leads(self) -> bool:
        return self.role == LEADER

    def tick(self, now: float) -> None:
        """Do what is due at ``now``, in seconds of any clock that never goes back."""
        if not self.leads:
            if now >= self._deadline:
                self._stand(now)
            return
        if self.successor is not None and now >= self._transfer_ends:
            self.successor = None
        if now >= self._beat:
            self._broadcast(now)
        # a leader steps down when too few answer, unless the removal of one more silent peer would leave it enough
        active = sum(now - self.progress[peer].answered <= 2 * self._timing.longest for peer in self._others())
        if active + 1 <= (len(self.members) - 1) / 2:
            self._follow(self.term, None, now)

    def propose(self, content: bytes, now: float) -> bool:
        """Append an entry and send it, as the leader. Returns whether that was possible."""
        return self._lead_entry(Entry(self.term, content), now)

    def change(self, members: tuple[str, ...], now: float) -> bool:
        """Append a change of the members (sorted) by one, as the leader. Returns False while that is not allowed.

        Between the last committed members and the newest there may be two sets, which differ by one peer. So the majorities of
        all sets that can be in force anywhere have a peer in common, and a change may be taken back.
        """
        ready = self.log.term_at(self.committed) == self.term  # Ongaro's correction to section 4.1 of the thesis
        sets = {frozenset(one) for one in self.memberships} | {frozenset(members)}
        if not ready or len(sets) != 2 or len(frozenset.symmetric_difference(*sets)) != 1:
            return False
        return self._lead_entry(Entry(self.term, members), now)

    def _lead_entry(self, entry: Entry, now: float) -> bool:
        if not self.leads or self.successor is not None:
            return False
        self.log.append(entry)
        for peer in self._others():
            self.progress.setdefault(peer, Progress(self.log.last, 0, now))
        self._broadcast(now)
        self._advance(now)
        return True

    def transfer(self, peers: set[str], now: float) -> None:
        """Hand over, as the leader, to the one of ``peers`` with most entries; refuse proposals until then."""
        able = set(self._others()) & peers if self.leads else set()
        if able:
            successor = min(able, key=lambda peer: (-self.progress[peer].match, peer))
            self.successor, self._transfer_ends = successor, now + self._timing.longest
            self._append_to(successor)
            self._urge(successor)

    def compact(self, index: int, position: tuple[int, bytes]) -> None:
        """Drop entries up to ``index`` <= ``committed``; the owner's ledger at ``position`` holds all of them."""
        self.log.compact(index)
        self.position = position

    # elections

    def _later(self, now: float) -> float:
        return now + self._draw.uniform(self._timing.shortest, self._timing.longest)

    def _others(self) -> list[str]:
        return [peer for peer in self.members if peer != self.me]

    def _majority(self, peers: set[str]) -> bool:
        return 2 * len(peers & set(self.members)) > len(self.members)

    def _stand(self, now: float) -> None:
        """Ask whether others would vote for us, before a term is used up (pre-vote)."""
        self._deadline = self._later(now)
        if self.me not in self.members:
            return  # a newcomer has seen no log yet that admits it
        self.leader = None
        self._ask(STANDS_BEFORE, now)

    def _ask(self, role: str, now: float) -> None:
        self.role, self._votes = role, {self.me}
        before = role == STANDS_BEFORE
        for peer in self._others():
            term = self.term + before
            self._send(peer, type="ask", term=term, last=self.log.last, last_term=self.log.last_term, pre=before)
        self._count(now)

    def _count(self, now: float) -> None:
        if not self._majority(self._votes):
            return
        if self.role == STANDS_BEFORE:
            self._become_candidate(now)
        elif self.role == CANDIDATE:
            self.role, self.leader, self.successor = LEADER, self.me, None
            self.progress = {peer: Progress(self.log.last + 1, 0, now) for peer in self._others()}
            self._lead_entry(Entry(self.term, None), now)

    def _become_candidate(self, now: float) -> None:
        self.term, self.vote, self.leader = self.term + 1, self.me, None
        self._deadline = self._later(now)
        self._ask(CANDIDATE, now)

    def _follow(self, term: int, leader: str | None, now: float) -> None:
        if term > self.term:
            self.term, self.vote = term, None
        if self.leads:
            self._deadline = self._later(now)
        self.role, self.leader, self.successor = FOLLOWER, leader, None
        if leader is not None:
            self._heard, self._deadline = now, self._later(now)

    # messages

    def _send(self, peer: str, **message: Any) -> None:
        self.outbox.append((peer, message))

    def receive(self, peer: str, message: dict[str, Any], now: float) -> None:
        """Take a message of ``peer``. Raises InvalidMessageError, and leaves log and commits as they were then."""
        message = checked(message, FIELDS, self.term)
        kind, term = message.pop("type"), message.pop("term")
        handlers: dict[str, Callable[..., None]] = {
            "ask": self._asked, "vote": self._voted, "append": self._appends, "snapshot": self._takes_snapshot,
            "appended": self._appended, "stand": self._urged, "removed": self._removed,
        }  # fmt: skip
        handler = handlers[kind]
        if message.get("pre"):
            handler = self._asked_before if kind == "ask" else self._answered_before
        elif term > self.term:
            self._follow(term, None, now)
        handler(peer, term, now, **message)

    def _current(self, last: int, last_term: int) -> bool:
        """Return whether a log with this end has every entry that may be committed here (section 5.4.1)."""
        return (last_term, last) >= (self.log.last_term, self.log.last)

    def _asked_before(self, peer: str, term: int, now: float, last: int, last_term: int, pre: bool) -> None:
        led = self.leads or (self.leader is not None and now - self._heard < self._timing.shortest)
        if led and not any(peer in members for members in self.memberships):
            self._send(peer, type="removed", term=self.term, leader=self.leader)
            return
        granted = term > self.term and self._current(last, last_term) and not led
        self._send(peer, type="vote", term=term if granted else self.term, pre=True, granted=granted)

    def _answered_before(self, peer: str, term: int, now: float, granted: bool, pre: bool) -> None:
        if granted:
            if self.role == STANDS_BEFORE and term == self.term + 1:
                self._votes.add(peer)
                self._count(now)
        elif term > self.term:
            self._follow(term, None, now)

    def _asked(self, peer: str, term: int, now: float, last: int, last_term: int, pre: bool) -> None:
        granted = term == self.term and self.vote in (None, peer) and self._current(last, last_term)
        if granted:
            self.vote, self._deadline = peer, self._later(now)
        self._send(peer, type="vote", term=self.term, pre=False, granted=granted)

    def _voted(self, peer: str, term: int, now: float, granted: bool, pre: bool) -> None:
        if granted and self.role == CANDIDATE and term == self.term:
            self._votes.add(peer)
            self._count(now)

    def _removed(self, peer: str, term: int, now: float, leader: str) -> None:
        """Note that a member with a leader does not know us: we were removed while nobody could hear us."""
        if self.leader is None and term >= self.term:
            self.removed_by = leader

    def _urged(self, peer: str, term: int, now: float) -> None:
        """Stand at once, without asking before: the leader wants us in its place."""
        if term == self.term and peer == self.leader and self.me in self.members:
            self._become_candidate(now)

    # log replication: the follower

    def _hears(self, peer: str, term: int, now: float, latest: int = 0) -> bool:
        """Follow ``peer`` if it leads; else tell it the later term. ``latest``: latest term of the entries that it sends.

        Raises InvalidMessageError for a second leader of a term, and for entries of a term that has not begun.
        """
        if latest > term:
            raise InvalidMessageError(f"raft message: {peer} has an entry of term {latest} in term {term}")
        if term < self.term:
            self._send(peer, type="appended", term=self.term, matches=False, index=0)
            return False
        if self.leads or self.leader not in (None, peer):
            raise InvalidMessageError(f"raft message: {peer} speaks as the leader of term {term}, which is {self.leader}")
        self._follow(term, peer, now)
        return True

    def _appends(
        self, peer: str, term: int, now: float, previous: int, previous_term: int, commit: int, entries: list[Entry]
    ) -> None:
        if not self._hears(peer, term, now, max(previous_term, *(entry.term for entry in entries), 0)):
            return
        terms = {previous: previous_term} | {index: entry.term for index, entry in enumerate(entries, previous + 1)}
        if any(later > self.log.base_term for index, later in terms.items() if index <= self.log.base):
            self._doubt_snapshot(peer)
        log = self.log
        if previous < log.base:  # dropped entries are committed, so they are the same there
            entries = entries[log.base - previous :]
            previous, previous_term = log.base, log.base_term
        if log.term_at(previous) != previous_term:
            if previous <= self.committed:
                raise InvalidMessageError(f"raft message: entry {previous} of {peer} contradicts a committed one")
            self._send(peer, type="appended", term=term, matches=False, index=self._hint(previous))
            return
        for index, entry in enumerate(entries, previous + 1):
            if log.term_at(index) == entry.term:
                continue  # we have the entry: cutting would drop acknowledged ones that follow
            if index <= self.committed:
                raise InvalidMessageError(f"raft message: entry {index} of {peer} contradicts a committed one")
            if index <= log.last:
                log.truncate(index)
            log.append(entry)
        match = previous + len(entries)
        self.committed = max(self.committed, min(commit, match))
        if self.committed > log.base:
            self._before_snapshot = None
        self._send(peer, type="appended", term=term, matches=True, index=match)

    def _doubt_snapshot(self, peer: str) -> None:
        """Return to the log before the last snapshot: the leader's log has a later term below it, and terms never fall.

        So a member lied. Otherwise the cluster would wait for us for ever, since every entry of the leader would be old to us.
        Raises InvalidMessageError where an entry after the snapshot is committed, since no message can undo that.
        """
        if self._before_snapshot is None:
            raise InvalidMessageError(f"raft message: entries of {peer} contradict committed ones")
        logger.warning("the snapshot that this election began with contradicts the log of %s: it is dropped", peer)
        (self.log, self.committed, self.position), self._before_snapshot = self._before_snapshot, None

    def _hint(self, previous: int) -> int:
        """Return the index that the leader may try next, before all entries of the term that does not fit."""
        if previous > self.log.last:
            return self.log.last + 1
        wrong = self.log.term_at(previous)
        while previous - 1 > self.committed and self.log.term_at(previous - 1) == wrong:
            previous -= 1
        return previous

    def _takes_snapshot(
        self, peer: str, term: int, now: float, index: int, index_term: int, members: tuple[str, ...], position: int, head: bytes
    ) -> None:
        if not self._hears(peer, term, now, index_term):
            return
        if index > self.committed:
            if not self.has(position, head):
                self.lacks = (position, head, peer)
            elif self.log.term_at(index) == index_term:
                self.committed = index  # later entries of our log stay: they may be acknowledged
            else:
                self._before_snapshot = self.log, self.committed, self.position
                self.log = Log(index, index_term, members)
                self.committed, self.position = index, (position, head)
        self._send(peer, type="appended", term=term, matches=True, index=self.committed)

    # log replication: the leader

    def _broadcast(self, now: float) -> None:
        self._beat = now + self._timing.heartbeat
        for peer in self._others():
            self._append_to(peer)

    def _append_to(self, peer: str) -> None:
        follower, log = self.progress[peer], self.log
        if follower.next <= log.base:
            position, head = self.position
            self._send(
                peer, type="snapshot", term=self.term, index=log.base, index_term=log.base_term,
                members=list(log.members_at(log.base)), position=position, head=head,
            )  # fmt: skip
            return
        previous = follower.next - 1
        entries = log.after(previous, SIZE)
        self._send(
            peer, type="append", term=self.term, previous=previous, previous_term=log.term_at(previous), commit=self.committed,
            entries=[plain(entry) for entry in entries],
        )  # fmt: skip
        follower.next += len(entries)  # counted as arrived; a refusal sets it back

    def _appended(self, peer: str, term: int, now: float, matches: bool, index: int) -> None:
        follower = self.progress.get(peer)
        if not self.leads or term != self.term or follower is None:
            return
        if index > self.log.last + 1 or (matches and index > self.log.last):
            raise InvalidMessageError(f"raft message: index={index} of {peer} is beyond the log, {self.log.last}")
        follower.answered = now
        if matches:
            follower.match = max(follower.match, index)
            follower.next = max(follower.next, follower.match + 1)
            self._advance(now)
            self._urge(peer)
        else:
            follower.next = max(follower.match + 1, index, 1)
        if self.leads and peer in self.members and (not matches or self.log.base < follower.next <= self.log.last):
            self._append_to(peer)

    def _advance(self, now: float) -> None:
        """Commit the entries that a majority has, of our own term only (section 5.4.2)."""
        have = [self.log.last if peer == self.me else self.progress[peer].match for peer in self.members]
        index = sorted(have, reverse=True)[len(have) // 2]
        if index > self.committed and self.log.term_at(index) == self.term:
            self.committed = index
            self._broadcast(now)
            if self.me not in self.log.members_at(index):  # our own removal
                self._follow(self.term, None, now)

    def _urge(self, peer: str) -> None:
        if self.leads and peer == self.successor and self.progress[peer].match == self.log.last:
            self._send(peer, type="stand", term=self.term)
