"""Takeover as published for trusted systems ("Distributed Evolution", section 2.2): no heartbeats, one predefined leader port.

Whoever completes its own iteration tries to reach the leader; the first that finds nobody at the leader port opens it and leads.
A peer that waits for the leader tries again each time that its own iteration took. On one machine one process holds the port, so
there is one leader at most. On several machines it is tried on the hosts of all members, and two of them may open theirs at
once: then the rule of :mod:`neuro_cli.election.longest_history` says which of them stays.
"""

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.election.base import Host
from neuro_cli.election.longest_history import FIELDS, LongestHistory
from neuro_cli.election.messages import InvalidMessageError, checked

log = logging.getLogger(__name__)

SHORTEST, LONGEST = 0.5, 600.0  # seconds, of the wait that the time of an iteration gives
SETTLING = 10.0  # seconds in which a new leader hears from those that it is connected with how far they are


class PortHost(Host, Protocol):
    """Peer with a leader port."""

    def open_port(self, port: int) -> str:
        """Listen at ``port`` of this machine too. Returns why that is not possible, "" when it is done."""

    def close_port(self) -> None:
        """Close the port, if it is open."""

    def stop_fetching(self) -> None:
        """End what :meth:`fall_back` began: nothing that it has asked for is taken any more."""

    def knock(self, port: int, peers: list[str], answered: Callable[[list[tuple[str, dict[str, Any]]]], None]) -> None:
        """Try ``port`` on the hosts of ``peers`` and our own; ``answered`` takes name and word of each leader there."""


class FirstToFinish(LongestHistory):
    """``port``: the leader's, the same on every machine."""

    name = "takeover"
    fields: ClassVar = {**FIELDS, "level": {}}
    host: PortHost

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = integer("election.port", port, 1, 65535)
        self._started = False

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        self._connected: set[str] = set()
        self._since, self._cycle = host.now(), SHORTEST  # when this iteration began; what our last one took
        self._due = float("inf")  # time to try the port: never while our own iteration is under way
        self._knocks = self._resigned = self._warned = False
        self._started = True
        self._unheard: set[str] = set()  # peers that have not said how far they are since we took the place
        self._ahead: dict[str, int] = {}  # how far those are that had more than we when we took the place
        self._settled_at = 0.0
        super().start(host, me, members, term, newcomer)
        if self._members == {me}:
            trouble = self._open()
            if trouble:
                raise ConfigError("election.port", self._port, f"the leader port cannot be opened: {trouble}")

    @property
    def can_commit(self) -> bool:
        """Check that this peer leads, and has what those have that it could ask when it took the place."""
        if not self.leads:
            return False
        return self.host.now() >= self._settled_at or (not self._unheard and self.host.position()[0] >= self._longest)

    @property
    def _longest(self) -> int:
        return max(self._ahead.values(), default=0)

    def propose(self, content: bytes) -> None:
        if self.can_commit:
            self._settle()
            self._tell({"type": "commit", "term": self._term, "content": content}, {*self._members, *self._others})
            self._commit(content)

    def _settle(self) -> None:
        """Name in the log what this leader goes on without: its first iteration undoes those that only others have."""
        here = self.host.position()[0]
        if self._unheard or here < self._longest:
            silent, longest = len(self._unheard), max(self._longest, here)
            log.warning(
                "leads after %g s without what others may have: %d said nothing, the longest history is %d, ours %d",
                SETTLING, silent, longest, here,
            )  # fmt: skip
            self.host.stop_fetching()
        self._unheard, self._ahead = set(), {}

    def _commit(self, content: bytes) -> None:
        """Commit; a record that does not follow, or came twice, ends no iteration of ours."""
        before = self.host.position()[0]
        self.host.commit(content)
        if self.host.position()[0] > before:
            self._since, self._due = self.host.now(), float("inf")

    def word(self) -> dict[str, Any] | None:
        return self._word() if self._started and self.leads else None

    def finished(self) -> None:
        now = self.host.now()
        self._cycle = min(max(now - self._since, SHORTEST), LONGEST)
        self._due = now + (self._cycle if self.leads or self._leader in self._connected else 0.0)

    def connected(self, peer: str, there: bool) -> None:
        (self._connected.add if there else self._connected.discard)(peer)
        if there and self.leads:
            self.host.send(peer, self._word())
        elif not there:
            self._unheard.discard(peer)
            self._ahead.pop(peer, None)  # nobody can fetch that any more, or another is as far and says so
            if peer == self._leader and self._due < float("inf"):
                self._due = self.host.now()

    def tick(self) -> None:
        now = self.host.now()
        if now < self._due or self._resigned:
            return
        self._due = now + self._cycle
        if self.leads:
            self._speak()  # what we wait for may be a peer that does not know of us
        elif not self._knocks:
            self._knocks = True
            self.host.knock(self._port, sorted({*self._members, *self._others}), self._knocked)

    def _knocked(self, words: list[tuple[str, dict[str, Any]]]) -> None:
        """Follow who has answered at the leader port; nobody there: take the place, unless the iteration came meanwhile."""
        self._knocks = False
        if self.leads or self._resigned:
            return
        if self._leader not in [peer for peer, _ in words]:
            self._leader = None
        for peer, word in words:
            try:
                self._receive(peer, checked(word, {"beat": FIELDS["beat"]}, self._term))
            except InvalidMessageError as error:
                log.warning("%s at the leader port: %s", peer, error)
        if not words and self._due < float("inf"):
            self._take()

    def resign(self) -> None:
        """Close the port, and do not lead again."""
        self._resigned = True
        if self.leads:
            self._leader = None
            self.host.close_port()

    def stop(self) -> None:
        """Close the port; the others find it closed."""
        self._resigned = True
        if self._started:
            self.host.close_port()

    def _take(self) -> None:
        trouble = self._open()
        if trouble and not self._warned:
            self._warned = True
            log.warning("nobody answers at the leader port %d, and it cannot be opened here: %s", self._port, trouble)

    def _open(self) -> str:
        trouble = self.host.open_port(self._port)
        if not trouble:
            self._term, self._leader, self._warned = self._term + 1, self.me, False
            self.host.stop_fetching()  # it would undo what this leader commits
            self._unheard = set(self._connected)
            self._ahead, self._settled_at = {}, self.host.now() + SETTLING
            log.info("found nobody at the leader port %d: leads in term %d", self._port, self._term)
            self._speak()
        return trouble

    def _postpone(self) -> None:
        """Wait on for the leader's commit, if our own iteration is finished: a word is none."""
        if self._due < float("inf"):
            self._due = self.host.now() + self._cycle

    def _receive(self, peer: str, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind in ("level", "ahead"):
            self._unheard.discard(peer)
            self._ahead[peer] = message.get("position", 0)
        if kind == "commit" and peer != self._leader:
            self._send_on(peer)  # it leads others, or has slept
        elif kind == "commit":  # of any term: the ledger knows whether it follows our history
            self._commit(message["content"])
        else:
            super()._receive(peer, message)
        if kind == "led" and self.leads:
            self.host.send(message["leader"], self._word())

    def _follow(self, peer: str, term: int) -> None:
        """Stop fetching: records under way, perhaps of a leader that died, would come after we have said how far we are."""
        super()._follow(peer, term)
        self.host.stop_fetching()

    def _hear(self, peer: str, term: int, position: int, head: bytes, members: set[str]) -> None:
        led = self.leads
        super()._hear(peer, term, position, head, members)
        if self._leader == peer:
            if led:
                self.host.close_port()
            if position >= self.host.position()[0]:
                self.host.send(peer, {"type": "level"})

    def _outlives(self, term: int, position: int, mine: int) -> bool:
        """A leader with the longer history stays; who follows takes part, and hands its longer history over."""
        if not self.leads or position >= mine:
            return False
        self._term = max(self._term, term + (term >= self._term))
        self._speak()
        return True
