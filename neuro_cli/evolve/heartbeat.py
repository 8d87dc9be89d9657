"""Who is there: the peers' words, the removal of those who have none for long, and a warning when too few are left."""

import logging
import time
from pathlib import Path
from typing import Protocol

from neuro_cli.election.base import Election
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.settings import Settings

log = logging.getLogger(__name__)

PAUSE = 2.0  # seconds between two calls of `watch`, one a second, from which on this process has stood still
SILENT = 4.0  # seconds after which a connection that says nothing is dropped, and dialled again
LEADERLESS = 5.0  # seconds, at least, before a peer says that nobody leads


class HeartbeatNode(Protocol):
    """The part of a node that its heartbeat needs. ``working``: the iteration that the worker is at."""

    me: str
    run: Path
    working: int
    settings: Settings
    election: Election
    connections: Connections

    @property
    def ledger(self) -> Ledger: ...


class Heartbeat:
    """What a node knows of the others, on its thread. ``progress``: committed iterations that a peer has, by its own word."""

    def __init__(self, node: HeartbeatNode) -> None:
        self._node = node
        self.last_heard: dict[str, float] = {}
        self.progress: dict[str, int] = {}
        self._leader_lost: float | None = None
        self._warned = False
        self._watched: float | None = None

    def begin(self, members: list[str]) -> None:
        """Take part in a cluster of ``members``."""
        self.expect(members)
        self._leader_lost, self._warned = time.monotonic(), False

    def expect(self, members: list[str]) -> None:
        """From now on ``members`` have as long to say something as if they just had."""
        now = time.monotonic()
        self.last_heard |= {peer: now for peer in members if peer != self._node.me}

    def heard(self, peer: str) -> None:
        self.last_heard[peer] = time.monotonic()

    def send_to_all(self) -> None:
        """Say to all who are connected how far we are."""
        for peer in self._node.connections.connected:
            self.send_to(peer)

    def send_to(self, peer: str) -> None:
        """Say it to one."""
        self._node.connections.send(peer, {"k": "ping", "next": self._node.ledger.next, "at": self._node.working})

    def watch(self, now: float) -> None:
        """Drop connections that say nothing; as the leader, remove members that have said nothing for long."""
        node = self._node
        slept = 0.0 if self._watched is None else max(0.0, now - self._watched - PAUSE)
        self._watched = now
        if slept:  # this process stood still: what others said meanwhile is not read yet, so their silence counts for nothing
            self.last_heard = {peer: when + slept for peer, when in self.last_heard.items()}
        for peer in node.connections.connected:
            if now - self.last_heard.get(peer, now) > SILENT:
                node.connections.drop(peer)
        self._watch_leader(now)
        for peer in node.election.members:
            silent = peer != node.me and now - self.last_heard.setdefault(peer, now) > node.settings.grace
            if silent and node.election.can_remove(peer):
                self.last_heard[peer] = now  # it may take a while, or fail: then again after as long
                log.warning("%s has said nothing for %g s: it is removed", peer, node.settings.grace)
                node.election.remove(peer, lambda done: None)

    def _watch_leader(self, now: float) -> None:
        node = self._node
        election = node.election
        # Raft's follower that is connected with nobody stands for nothing, and still names the leader that it had
        if election.can_commit or election.leader in node.connections.connected:
            self._leader_lost, self._warned = None, False
        elif self._leader_lost is None:
            self._leader_lost = now
        elif not self._warned and now - self._leader_lost > max(node.settings.grace, LEADERLESS):
            self._warned = True
            log.warning(
                "no leader: %d of %d members answer, %d are needed. When the others are lost for good: "
                "neuro evolve cluster.from_run=%s cluster.force_new=true",
                len(node.connections.connected & set(election.members)) + 1,
                len(election.members),
                election.needed,
                node.run,
            )
