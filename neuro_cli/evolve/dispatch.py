"""Dispatches messages of other peers, and changes of their connections, to the parts of a node."""

import logging
from typing import Any

from neuro_cli.evolve.collector import report_of
from neuro_cli.evolve.leader import Leader
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.members.removal import RemovalDetector
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.messages import ON_A_LINK, Limits, checked
from neuro_cli.evolve.peer_state import PeerState

log = logging.getLogger(__name__)


class Dispatch:
    """Dispatch of a node, on the network thread."""

    def __init__(
        self,
        state: PeerState,
        connections: Connections,
        heartbeat: Heartbeat,
        leader: Leader,
        removal: RemovalDetector,
        limits: Limits,
    ) -> None:
        self._state, self._connections, self._heartbeat = state, connections, heartbeat
        self._leader, self._removal, self._limits = leader, removal, limits

    def connection_changed(self, peer: str, connected: bool) -> None:
        """Note that messages to ``peer`` can be sent now, or no longer."""
        log.info("%s %s", peer, "is connected" if connected else "is gone")
        if connected:
            self._removal.clear()
            self._heartbeat.send_to(peer)
        else:
            self._leader.collector.forget(peer)
            self._heartbeat.progress.pop(peer, None)
        if self._state.entered.is_set():
            self._state.election.connected(peer, connected)

    def received(self, peer: str, message: dict[str, Any]) -> None:
        """Take a message of an authenticated peer of our cluster. Raises MalformedError, and errors of the election."""
        kind = checked(message, *ON_A_LINK)["k"]
        is_member = peer in self._connections.wanted
        if is_member:
            self._heartbeat.heard(peer)
        if kind == "election":
            if self._state.entered.is_set():
                self._state.election.receive(peer, message["m"])
                self._state.election.tick()
        elif not is_member:
            return  # not a member as far as we know; it will send this again
        elif kind in ("report", "sequence"):
            self._leader.take(peer, report_of(peer, message, self._limits))
        else:
            self._heartbeat.progress[peer] = message["next"]
            self._leader.collector.progress(peer, message["at"])
