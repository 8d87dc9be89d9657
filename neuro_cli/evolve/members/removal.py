"""Detects that the cluster has removed this peer: members refuse its connections or report the removal."""

import logging
import time

from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.network.rate_limit import RateLimitedLog
from neuro_cli.evolve.peer_state import PeerState

log = logging.getLogger(__name__)

REFUSALS = 3  # reports of a removal after which a peer believes it
LEADER_SILENT = 2.0  # pings without a message of the leader, before members may report our removal


class RemovalDetector:
    """Counter of reports that a node is no longer a member, on the network thread."""

    def __init__(self, state: PeerState, heartbeat: Heartbeat) -> None:
        self._state, self._heartbeat = state, heartbeat
        self._count = 0
        self._silence = LEADER_SILENT * heartbeat.interval
        self._refused = RateLimitedLog(log, 10)

    @property
    def detected(self) -> bool:
        return self._count >= REFUSALS

    def clear(self) -> None:
        """Forget earlier reports: this peer is a member, or connected with one, now."""
        self._count = 0

    def reported(self, leader: str) -> None:
        """Count a member's word that ``leader`` leads a cluster without this peer."""
        self._state.met.add(leader)
        self._count += 1

    def refused(self, peer: str, reason: str) -> None:
        """Count, or log, that ``peer`` has refused our connection."""
        if not reason.startswith("removed"):
            self._refused.say(f"{peer} refuses us: {reason}")
        elif not self._led():
            self._count += 1

    def _led(self) -> bool:
        """Return whether this peer leads, or has just heard its leader: then a report of its removal is out of date."""
        leader = self._state.leader
        heard = self._heartbeat.last_heard.get(leader or "", float("-inf"))
        return (leader == self._state.me and self._state.election.can_commit) or time.monotonic() - heard < self._silence
