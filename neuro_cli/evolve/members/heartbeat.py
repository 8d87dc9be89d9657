"""Heartbeats and failure detection: pings, removal of silent members, and a warning when too few are left for a leader."""

import logging
import time
from pathlib import Path

from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.peer_state import PeerState

log = logging.getLogger(__name__)

PAUSE = 2.0  # seconds between two calls of `watch`, one as a rule, above which this process was suspended
PING, SHARE = 1.0, 0.1  # shortest time in seconds between two pings, and their share of the grace period
SILENT = 4.0  # pings that may be missing before a connection is closed and opened again
LEADERLESS = 5.0  # shortest time in seconds before a peer warns that no leader exists


class Heartbeat:
    """Heartbeats of a node, on the network thread.

    ``last_heard``: time of each peer's last message; ``progress``: number of its iterations.
    """

    def __init__(self, state: PeerState, connections: Connections, ledger: PeerLedger, run: Path) -> None:
        self._state, self._connections, self._ledger, self._run = state, connections, ledger, run
        self.last_heard: dict[str, float] = {}
        self.progress: dict[str, int] = {}
        self._leader_lost: float | None = None
        self._warned = False
        self._watched: float | None = None

    @property
    def interval(self) -> float:
        """Return the seconds between two pings."""
        return max(PING, SHARE * self._state.settings.grace)

    def begin(self, members: list[str]) -> None:
        """Begin as a member of a cluster of ``members``."""
        self.expect(members)
        self._leader_lost, self._warned = time.monotonic(), False

    def expect(self, members: list[str]) -> None:
        """Count the silence of ``members`` from now on."""
        now = time.monotonic()
        self.last_heard |= {peer: now for peer in members if peer != self._state.me}

    def heard(self, peer: str) -> None:
        self.last_heard[peer] = time.monotonic()

    def send_to_all(self) -> None:
        """Ping all connected peers."""
        for peer in self._connections.connected:
            self.send_to(peer)

    def send_to(self, peer: str) -> None:
        """Ping a peer, with the iterations that we have and the one that we work on."""
        self._connections.send(peer, {"k": "ping", "next": self._ledger.next, "at": self._state.working})

    def watch(self, now: float) -> None:
        """Drop silent connections; as the leader, remove members that are silent for longer than the grace period."""
        state, connections = self._state, self._connections
        slept = 0.0 if self._watched is None else max(0.0, now - self._watched - PAUSE)
        self._watched = now
        if slept:  # this process was suspended: messages of the others wait to be read, so their silence does not count
            self.last_heard = {peer: when + slept for peer, when in self.last_heard.items()}
        for peer in connections.connected:
            if now - self.last_heard.get(peer, now) > SILENT * self.interval:
                connections.drop(peer)
        self._watch_leader(now)
        for peer in state.election.members:
            silent = peer != state.me and now - self.last_heard.setdefault(peer, now) > state.settings.grace
            if silent and state.election.can_remove(peer):
                self.last_heard[peer] = now  # a removal may take a while, or fail: it is repeated after the same time
                log.warning("%s has said nothing for %g s: it is removed", peer, state.settings.grace)
                state.election.remove(peer, lambda done: None)

    def _watch_leader(self, now: float) -> None:
        election, connected = self._state.election, self._connections.connected
        # a Raft follower without connections is no candidate, but still names its former leader
        if election.can_commit or election.leader in connected:
            self._leader_lost, self._warned = None, False
        elif self._leader_lost is None:
            self._leader_lost = now
        elif not self._warned and now - self._leader_lost > max(self._state.settings.grace, LEADERLESS):
            self._warned = True
            answer = len(connected & set(election.members)) + 1
            if answer >= election.needed:
                text = "no leader: %d of %d members answer, which is enough: wait for one (a stopped process may hold its port)"
                log.warning(text, answer, len(election.members))
                return
            log.warning(
                "no leader: %d of %d members answer, %d are needed. When the others are lost for good: "
                "neuro evolve cluster.from_run=%s cluster.force_new=true",
                answer,
                len(election.members),
                election.needed,
                self._run,
            )
