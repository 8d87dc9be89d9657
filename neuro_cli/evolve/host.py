"""Host of a peer's election (:class:`neuro_cli.election.base.Host`): its network, clock, ledger and membership."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from neuro_cli.evolve.members.removal import RemovalDetector
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.leader_port import LeaderPort, Words
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.state_transfer import StateTransfer


class HostNode(Protocol):
    """Part of a node that its election's host needs."""

    me: str
    known: set[str]
    connections: Connections
    peer_ledger: PeerLedger
    removal: RemovalDetector
    leader_port: LeaderPort
    state_transfer: StateTransfer


class ElectionHost:
    """Serves the election of a node, on the network thread."""

    def __init__(self, node: HostNode) -> None:
        self._node = node

    def now(self) -> float:
        return time.monotonic()

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self._node.connections.send(peer, {"k": "election", "m": message})

    def wanted(self, peers: list[str]) -> None:
        node = self._node
        node.known |= set(peers)
        node.connections.want(set(peers) - {node.me})

    def removed(self, leader: str) -> None:
        self._node.removal.reported(leader)

    def commit(self, content: bytes) -> None:
        self._node.peer_ledger.commit(content)

    def position(self) -> tuple[int, bytes]:
        ledger = self._node.peer_ledger.ledger
        return ledger.next, ledger.head

    def has(self, position: int, head: bytes) -> bool:
        return self._node.peer_ledger.has(position, head)

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        self._node.peer_ledger.fall_back(position, head, source)

    def stop_fetching(self) -> None:
        self._node.state_transfer.stop()

    def open_port(self, port: int) -> str:
        return self._node.leader_port.open(port)

    def close_port(self) -> None:
        self._node.leader_port.close()

    def knock(self, port: int, peers: list[str], answered: Callable[[Words], None]) -> None:
        self._node.leader_port.knock(port, peers, answered)
