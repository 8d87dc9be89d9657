"""One replica of Raft as a pure state machine: messages and time in, messages and committed entries out.

After figure 2 of Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (USENIX ATC 2014), with what
Ongaro's thesis ("Consensus: Bridging Theory and Practice", Stanford 2014) adds: membership changes one server at a time
(chapter 4, and the correction that a leader first commits an entry of its own term), snapshots (chapter 5), pre-vote (9.6),
and a leader that steps down when it hears from too few (6.2). A leader that leaves removes itself (4.2.2).

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
from neuro_cli.election.raft_log import FIELDS, Entry, Log, entry_of, plain
from neuro_cli.election.raft_voter import Timing, Voter

logger = logging.getLogger(__name__)

SIZE = 2**20  # bytes of entries in a message


@dataclass
class Progress:
    """Progress of a follower, as the leader knows it: it has the entries up to ``match``; ``next`` is sent next.

    ``answered``: time of its last answer.
    """

    next: int
    match: int
    answered: float


class Replica(Voter):
    """Replica of Raft; ``committed`` grows, and the owner takes entries up to it. ``outbox``: (peer, message), may be lost.

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
        super().__init__(me, members, term, base, timing, draw, now)
        self.has = has
        self.position = position  # position of the ledger when the log was last compacted: a snapshot points there
        self.progress: dict[str, Progress] = {}
        self.lacks: tuple[int, bytes, str] | None = None  # position, head, leader of a snapshot that was not taken
        self._before_snapshot: tuple[Log, int, tuple[int, bytes]] | None = None  # log, committed, position before a snapshot
        self._beat = 0.0

    def tick(self, now: float) -> None:
        """Do what is due for the replica at ``now``, in seconds of any clock that never goes back."""
        if not self.leads:
            if now >= self._deadline:
                self._stand(now)
            return
        if now >= self._beat:
            self._broadcast(now)
        # a leader steps down when too few answer, unless the removal of one more silent peer would leave it enough
        active = sum(now - self.progress[peer].answered <= 2 * self._timing.longest for peer in self._others())
        if active + 1 <= (len(self.members) - 1) / 2:
            self._follow(self.term, None, now)

    def propose(self, content: bytes, now: float) -> bool:
        """Append an entry to the replica's log and send it, as the leader. Returns whether that was possible."""
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

    def _lead(self, now: float) -> None:
        self.progress = {peer: Progress(self.log.last + 1, 0, now) for peer in self._others()}
        self._lead_entry(Entry(self.term, None), now)

    def _lead_entry(self, entry: Entry, now: float) -> bool:
        if not self.leads:
            return False
        self.log.append(entry)
        for peer in self._others():
            self.progress.setdefault(peer, Progress(self.log.last, 0, now))
        self._broadcast(now)
        self._advance(now)
        return True

    def compact(self, index: int, position: tuple[int, bytes]) -> None:
        """Drop entries up to ``index`` <= ``committed``; the owner's ledger at ``position`` holds all of them."""
        self.log.compact(index)
        self.position = position

    # messages

    def receive(self, peer: str, message: dict[str, Any], now: float) -> None:
        """Take a message of ``peer``. Raises InvalidMessageError, and leaves log and commits as they were then."""
        message = checked(message, FIELDS, self.term)
        kind, term = message.pop("type"), message.pop("term")
        handlers: dict[str, Callable[..., None]] = {
            "ask": self._asked, "vote": self._voted, "append": self._appends, "snapshot": self._takes_snapshot,
            "appended": self._appended, "removed": self._removed,
        }  # fmt: skip
        handler = handlers[kind]
        if message.get("pre"):
            handler = self._asked_before if kind == "ask" else self._answered_before
        elif term > self.term:
            self._follow(term, None, now)
        handler(peer, term, now, **message)

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
        self, peer: str, term: int, now: float, previous: int, previous_term: int, commit: int, entries: list[Any]
    ) -> None:
        entries = list(map(entry_of, entries))
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
            self._send(peer, type="appended", term=term, matches=False, index=log.conflict(previous, self.committed))
            return
        log.merge(previous, entries, self.committed, peer)
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

    def _takes_snapshot(
        self, peer: str, term: int, now: float, index: int, index_term: int, members: list[str], position: int, head: bytes
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
                self.log = Log(index, index_term, tuple(members))
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
