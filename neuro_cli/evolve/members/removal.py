"""Detects that the cluster has removed this peer, from the members that refuse its connections or say so."""

import logging
import time
from typing import Protocol

from neuro_cli.election.base import Election
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.network.rate_limit import RateLimitedLog

log = logging.getLogger(__name__)

REFUSALS = 3  # reports of a removal after which a peer believes it
LEADER_SILENT = 2.0  # seconds without a message of the leader, after which members may report our removal


class RemovalNode(Protocol):
    """Part of a node that the detection needs. ``known``: names of all peers met so far."""

    me: str
    known: set[str]
    election: Election
    heartbeat: Heartbeat

    def current_leader(self) -> str | None: ...


class RemovalDetector:
    """Counts reports that a node is no member any more, on the network thread."""

    def __init__(self, node: RemovalNode) -> None:
        self._node = node
        self._count = 0
        self._refused = RateLimitedLog(log, 10)

    @property
    def detected(self) -> bool:
        return self._count >= REFUSALS

    def clear(self) -> None:
        """Forget earlier reports: this peer is a member, or connected with one, now."""
        self._count = 0

    def reported(self, leader: str) -> None:
        """Count a member's word that ``leader`` leads a cluster without this peer."""
        self._node.known.add(leader)
        self._count += 1

    def refused(self, peer: str, reason: str) -> None:
        """Count, or log, that ``peer`` has refused our connection."""
        if not reason.startswith("removed"):
            self._refused.say(f"{peer} refuses us: {reason}")
        elif not self._led():
            self._count += 1

    def _led(self) -> bool:
        """Whether this peer leads, or has heard its leader just now: then a report of its removal is out of date."""
        node = self._node
        leader = node.current_leader()
        heard = node.heartbeat.last_heard.get(leader or "", float("-inf"))
        return (leader == node.me and node.election.can_commit) or time.monotonic() - heard < LEADER_SILENT
