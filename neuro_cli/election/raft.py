"""Raft (Ongaro and Ousterhout 2014): a majority commits, and what it committed no later leader loses.

The algorithm is :mod:`neuro_cli.election.raft_replica`, which knows neither clock nor network; this module gives it both.
No library offers what a cluster needs here: members that come and go without a disk, a snapshot that points to a ledger stored
elsewhere, a transport that authenticates peers, and a replica that a simulation can drive through any schedule.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError
from neuro_cli.election.base import Election, Host
from neuro_cli.election.raft_replica import Replica
from neuro_cli.election.raft_voter import Timing

log = logging.getLogger(__name__)

STRANGER, MOST_STRANGERS = 10.0, 64  # seconds for which a peer that is no member stays connected; number of such peers


class Raft(Election):
    """Raft; ``heartbeat``, ``timeout_min``, ``timeout_max`` in seconds; ``keep``: applied entries, of more half are dropped."""

    name = "raft"

    def __init__(self, heartbeat: float, timeout_min: float, timeout_max: float, keep: int) -> None:
        super().__init__()
        number("election.heartbeat", heartbeat, above=0.0)
        number("election.timeout_min", timeout_min, above=3 * heartbeat)
        number("election.timeout_max", timeout_max)
        self._keep = integer("election.keep", keep, 10)
        if timeout_max <= timeout_min:
            raise ConfigError("election.timeout_max", timeout_max, f"must be > timeout_min={timeout_min:g}")
        self._timing = Timing(heartbeat, timeout_min, timeout_max)
        self._replica: Replica | None = None

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        super().start(host, me, members, term, newcomer)
        # a newcomer is a member from its own entry on, which its log does not have yet
        first = tuple(sorted(set(members) - {me} if newcomer else members))
        base = 0 if newcomer else 1  # the ledger at the start of a cluster is the first snapshot: a newcomer has to fetch it
        self._replica = Replica(me, first, term, base, self._timing, self.draw, host.has, host.position(), host.now())
        self._applied = base
        self._connected: set[str] = set()
        self._wanted: tuple[str | None, list[str], list[tuple[str, ...]]] | None = None  # leader, strangers, memberships
        # time until which a peer that asks or leads stays connected, also one that our log does not know yet or any more
        self._strangers: dict[str, float] = {}
        self._changes: deque[tuple[bool, str, Callable[[bool], None]]] = deque()
        # index of the entry that changes the members, when it was proposed, the members before
        self._change: tuple[int, float, tuple[str, ...], Callable[[bool], None]] | None = None
        self._applying = False
        self._settle()

    @property
    def replica(self) -> Replica:
        """Return the state machine of Raft, which exists after :meth:`start`."""
        assert self._replica is not None, "start comes first"
        return self._replica

    @property
    def leader(self) -> str | None:
        return self.replica.leader

    @property
    def term(self) -> int:
        return self.replica.term

    @property
    def members(self) -> list[str]:
        """Members, with those of an uncommitted change and the peer that it removes: it may be taken back."""
        return sorted({self.me}.union(*self.replica.memberships))

    @property
    def can_commit(self) -> bool:
        replica = self.replica
        return replica.leads and self._suffices(replica.members)

    def can_remove(self, peer: str) -> bool:
        """Return whether the members that stay can agree: a change counts as soon as it is in the log (Ongaro 2014, 4.1).

        So the leader of two may remove the other: a majority of two and one of one have a member in common.
        """
        return self.replica.leads and self._suffices(set(self.replica.members) - {peer})

    def _suffices(self, members: Collection[str]) -> bool:
        return 2 * (len(self._connected.intersection(members)) + 1) > len(members)

    @property
    def needed(self) -> int:
        return len(self.replica.members) // 2 + 1

    def propose(self, content: bytes) -> None:
        self.replica.propose(content, self.host.now())
        self._settle()

    def add(self, peer: str, done: Callable[[bool], None]) -> None:
        self._enqueue(True, peer, done)

    def remove(self, peer: str, done: Callable[[bool], None]) -> None:
        self._enqueue(False, peer, done)

    def _enqueue(self, enters: bool, peer: str, done: Callable[[bool], None]) -> None:
        if any((enters, peer) == queued[:2] for queued in self._changes):
            done(False)
        else:
            self._changes.append((enters, peer, done))

    def resign(self, removed: Callable[[], None]) -> None:
        if self.replica.leads:
            self.remove(self.me, lambda done: removed() if done else None)

    def receive(self, peer: str, message: dict[str, Any]) -> None:
        """Take a message of Raft. Raises ValueError for one that no peer of this version sends."""
        if self._replica is not None:
            self._replica.receive(peer, message, self.host.now())
            if message["type"] in ("ask", "append", "snapshot"):
                self._remember(peer)
            self._settle()

    def connected(self, peer: str, is_open: bool) -> None:
        (self._connected.add if is_open else self._connected.discard)(peer)

    def tick(self) -> None:
        if self._replica is not None:
            self._replica.tick(self.host.now())
            self._take_back()
            self._begin_change()
            self._settle()

    def stop(self) -> None:
        self._replica = None

    def _begin_change(self) -> None:
        """Begin the next change of the members that can begin: one at a time, but a pending one may be taken back."""
        for _ in range(len(self._changes)):
            enters, peer, done = self._changes.popleft()
            before = self.replica.members
            after = {*before, peer} if enters else set(before) - {peer}
            if not self.replica.leads:
                done(False)
            elif after == set(before) and self._change is None:
                done(True)
            elif (enters or self._suffices(after)) and self._propose_members(after):
                self._end_change(False)  # the change that was taken back
                self._change = self.replica.log.last, self.host.now(), before, done
            else:
                self._changes.append((enters, peer, done))

    def _propose_members(self, members: set[str]) -> bool:
        return members != set(self.replica.members) and self.replica.change(tuple(sorted(members)), self.host.now())

    def _take_back(self) -> None:
        """Take back a change that too few can commit, where enough of the members before it could."""
        if self._change is None:
            return
        _, since, before, _ = self._change
        stuck = self.host.now() - since > 3 * self._timing.longest and not self._suffices(self.replica.members)
        if stuck and self._suffices(before) and self._propose_members(set(before)):
            log.info("a change of the members is taken back: they stay %s", ", ".join(before))
            self._end_change(False)
            self._change = self.replica.log.last, self.host.now(), before, lambda _: None

    def _remember(self, peer: str) -> None:
        """Stay connected for a while with a peer that is no member, so that it gets its answer."""
        others = {name: until for name, until in self._strangers.items() if name != peer}
        if not any(peer in members for members in self.replica.memberships):
            others[peer] = self.host.now() + STRANGER
        self._strangers = dict(list(others.items())[-MOST_STRANGERS:])

    def _end_change(self, outcome: bool) -> None:
        if self._change is not None:
            (*_, done), self._change = self._change, None
            done(outcome)

    def _settle(self) -> None:
        """Pass on the results of the replica: committed entries, messages, connections that it needs."""
        replica = self._replica
        if self._applying or replica is None:
            return
        self._applied = min(self._applied, replica.committed)  # a snapshot was dropped; the ledger knows which iterations it has
        if self._applied < replica.committed:
            self._applying = True
            try:
                self._apply(replica)
            finally:
                self._applying = False
        if self._change is not None and not replica.leads:
            self._end_change(False)  # the next leader may still commit it
        strangers = []
        if self._strangers:
            now = self.host.now()
            strangers = [peer for peer, until in self._strangers.items() if until > now]
        wanted = replica.leader, strangers, replica.memberships
        if wanted != self._wanted:
            self._wanted = wanted
            self.host.wanted(sorted({replica.leader or self.me, self.me, *strangers}.union(*replica.memberships)))
        if replica.outbox:
            outbox, replica.outbox = replica.outbox, []
            for peer, message in outbox:
                self.host.send(peer, message)
        if replica.removed_by is not None:
            leader, replica.removed_by = replica.removed_by, None
            self.host.removed(leader)
        if replica.lacks is not None:
            (position, head, leader), replica.lacks = replica.lacks, None
            self.host.fall_back(position, head, leader)

    def _apply(self, replica: Replica) -> None:
        while self._applied < replica.committed:
            self._applied = max(self._applied + 1, replica.log.base)  # a snapshot stands for the entries that it skips
            content = replica.log[self._applied].content if self._applied > replica.log.base else None
            if isinstance(content, bytes):
                self.host.commit(content)
            if self._change is not None and self._change[0] <= self._applied:
                self._end_change(True)
        if self._applied - replica.log.base > self._keep:
            replica.compact(self._applied - self._keep // 2, self.host.position())
