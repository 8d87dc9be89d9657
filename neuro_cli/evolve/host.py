"""Host of a peer's election (:class:`neuro_cli.election.base.Host`): its network, clock, ledger and membership."""

import time
from collections.abc import Callable
from typing import Any

from neuro_cli.evolve.members.removal import RemovalDetector
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.leader_port import LeaderPort, Words
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.peer_state import PeerState
from neuro_cli.evolve.state_transfer import StateTransfer


class ElectionHost:
    """Serves the election of a node, on the network thread."""

    def __init__(
        self,
        state: PeerState,
        connections: Connections,
        ledger: PeerLedger,
        removal: RemovalDetector,
        leader_port: LeaderPort,
        transfer: StateTransfer,
    ) -> None:
        self._state, self._connections, self._ledger = state, connections, ledger
        self._removal, self._leader_port, self._transfer = removal, leader_port, transfer

    def now(self) -> float:
        return time.monotonic()

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self._connections.send(peer, {"k": "election", "m": message})

    def wanted(self, peers: list[str]) -> None:
        self._state.known |= set(peers)
        self._connections.want(set(peers) - {self._state.me})

    def removed(self, leader: str) -> None:
        self._removal.reported(leader)

    def commit(self, content: bytes) -> None:
        self._ledger.commit(content)

    def position(self) -> tuple[int, bytes]:
        return self._ledger.next, self._ledger.head

    def has(self, position: int, head: bytes) -> bool:
        return self._ledger.has(position, head)

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        self._ledger.fall_back(position, head, source)

    def stop_fetching(self) -> None:
        self._transfer.stop()

    def open_port(self, port: int) -> str:
        return self._leader_port.open(port)

    def close_port(self) -> None:
        self._leader_port.close()

    def knock(self, port: int, peers: list[str], answered: Callable[[Words], None]) -> None:
        self._leader_port.knock(port, peers, answered)
