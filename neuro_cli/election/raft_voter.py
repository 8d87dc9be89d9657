"""Votes of Raft: how a replica becomes a candidate and a leader, and whom it votes for.

After sections 5.1, 5.2 and 5.4.1 of Ongaro and Ousterhout 2014, with pre-vote (section 9.6 of Ongaro's thesis).
"""

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from neuro_cli.election.raft_log import Log

FOLLOWER, STANDS_BEFORE, CANDIDATE, LEADER = "follower", "stands before", "candidate", "leader"


@dataclass
class Timing:
    """Times of a voter in seconds: a leader's heartbeat interval, and bounds of a follower's election timeout."""

    heartbeat: float
    shortest: float
    longest: float


class Voter(ABC):
    """Voter, one replica's term, role and vote. ``committed`` grows; ``outbox``: (peer, message) to be sent, may be lost."""

    def __init__(
        self, me: str, members: tuple[str, ...], term: int, base: int, timing: Timing, draw: random.Random, now: float
    ) -> None:  # fmt: skip
        self.me, self.term = me, term
        self._timing, self._draw = timing, draw
        self.log = Log(base, 0, members)
        self.committed = base
        self.role = FOLLOWER
        self.leader: str | None = None
        self.vote: str | None = None
        self.outbox: list[tuple[str, dict[str, Any]]] = []
        self.removed_by: str | None = None  # leader of a cluster that has removed us
        self._votes: set[str] = set()
        self._heard = float("-inf")  # time of the last message of a leader
        self._deadline = now if members == (me,) else self._later(now)

    @abstractmethod
    def _lead(self, now: float) -> None:
        """Begin to lead, as the winner of an election."""

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

    def _later(self, now: float) -> float:
        return now + self._draw.uniform(self._timing.shortest, self._timing.longest)

    def _others(self) -> list[str]:
        return [peer for peer in self.members if peer != self.me]

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
        if 2 * len(self._votes & set(self.members)) <= len(self.members):
            return
        if self.role == STANDS_BEFORE:
            self.term, self.vote, self.leader = self.term + 1, self.me, None
            self._deadline = self._later(now)
            self._ask(CANDIDATE, now)
        elif self.role == CANDIDATE:
            self.role, self.leader = LEADER, self.me
            self._lead(now)

    def _follow(self, term: int, leader: str | None, now: float) -> None:
        """Follow ``leader``, or nobody yet, in ``term``; a later term than ours has no vote of ours."""
        if term > self.term:
            self.term, self.vote = term, None
        if self.leads:
            self._deadline = self._later(now)
        self.role, self.leader = FOLLOWER, leader
        if leader is not None:
            self._heard, self._deadline = now, self._later(now)

    # messages

    def _send(self, peer: str, **message: Any) -> None:
        self.outbox.append((peer, message))

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
