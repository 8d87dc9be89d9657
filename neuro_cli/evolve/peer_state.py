"""State of a peer that the parts of its node share: name and key, cluster, election, and the worker's iteration."""

import ssl
import threading
from dataclasses import dataclass, field
from typing import Any

from neuro_cli.election.base import Election
from neuro_cli.evolve.config import ClusterConfig
from neuro_cli.evolve.identity import FORMAT
from neuro_cli.evolve.network.channel import Channel, dial
from neuro_cli.fabric.base import Traffic
from neuro_cli.tls.evolve_peer import Authority


@dataclass
class PeerState:
    """State of this peer, changed on the network thread alone.

    ``address``: under which others reach this peer. ``entered``: set while this peer takes part in the election. ``met``: names
    of all peers met so far. ``working``: iteration of the worker, -1 before the first. ``traffic``: bytes of all its connections.
    """

    settings: ClusterConfig
    address: str
    generations: int
    identity: dict[str, Any]
    election: Election
    authority: Authority
    entered: threading.Event = field(default_factory=threading.Event)
    cluster: str = ""
    met: set[str] = field(default_factory=set)
    working: int = -1
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        self.rename()

    def rename(self) -> None:
        """Take a new name with a key of its own, so that no other peer can speak under it."""
        self.credentials = self.authority.fresh()
        self.me = f"{self.credentials.identifier}@{self.address}"

    @property
    def leader(self) -> str | None:
        """Name of the leader, None while there is none or this peer takes no part."""
        return self.election.leader if self.entered.is_set() else None

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of a client under our present name."""
        return self.credentials.client

    def greeting(self, purpose: str) -> dict[str, Any]:
        """Return the first message of a connection to a peer of our own cluster."""
        return {"k": "hello", "for": purpose, "format": FORMAT, "peer": self.me, "cluster": self.cluster}

    def hello(self, purpose: str) -> dict[str, Any]:
        """Return the first message to any peer, with the identity of our run."""
        return self.greeting(purpose) | {"identity": self.identity}

    async def dial(
        self, target: str, hello: dict[str, Any], answers: tuple[str, ...], timeout: float
    ) -> tuple[Channel, dict[str, Any]]:  # fmt: skip
        """Connect with a peer under our name (:func:`~neuro_cli.evolve.network.channel.dial`)."""
        return await dial(target, self.tls(), self.traffic, hello, answers, timeout)
