"""Dispatches messages of other peers, and changes of their connections, to the parts of a node."""

import logging
import threading
from typing import Any, Protocol

from neuro_cli.election.base import Election
from neuro_cli.evolve.collector import report_of
from neuro_cli.evolve.leader import Leader
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.members.removal import RemovalDetector
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.messages import ON_A_LINK, Limits, checked

log = logging.getLogger(__name__)


class DispatchNode(Protocol):
    """Part of a node that the dispatch needs."""

    limits: Limits
    election: Election
    connections: Connections
    heartbeat: Heartbeat
    leader: Leader
    entered: threading.Event
    removal: RemovalDetector


class Dispatch:
    """Serves a node, on the network thread."""

    def __init__(self, node: DispatchNode) -> None:
        self._node = node

    def connection_changed(self, peer: str, connected: bool) -> None:
        """Note that messages to ``peer`` can be sent now, or no longer."""
        node = self._node
        log.info("%s %s", peer, "is connected" if connected else "is gone")
        if connected:
            node.removal.clear()
            node.heartbeat.send_to(peer)
        else:
            node.leader.collector.forget(peer)
            node.heartbeat.progress.pop(peer, None)
        if node.entered.is_set():
            node.election.connected(peer, connected)

    def received(self, peer: str, message: dict[str, Any]) -> None:
        """Take a message of an authenticated peer of our cluster. Raises MalformedError, and what the election raises."""
        node = self._node
        kind = checked(message, *ON_A_LINK)["k"]
        is_member = peer in node.connections.wanted
        if is_member:
            node.heartbeat.heard(peer)
        if kind == "election":
            if node.entered.is_set():
                node.election.receive(peer, message["m"])
                node.election.tick()
        elif not is_member:
            return  # not a member as far as we know; it sends this again
        elif kind in ("report", "sequence"):
            node.leader.take(peer, report_of(peer, message, node.limits))
        else:
            node.heartbeat.progress[peer] = message["next"]
            node.leader.collector.progress(peer, message["at"])
