"""The contract of an election: who leads, who belongs to the cluster, and in which order proposals are committed.

All methods are called on one thread (the network's). A peer is named by ``identifier@host:port``; the identifier is drawn
anew whenever a process starts or joins again, so no peer ever comes back with less memory than its name had.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol


class Host(Protocol):
    """What an election needs of the peer it works for."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""

    def send(self, peer: str, message: dict[str, Any]) -> None:
        """Hand a message of plain data to the network; it may be lost."""

    def commit(self, content: bytes) -> None:
        """The next committed content."""

    def position(self) -> tuple[int, bytes]:
        """How many iterations this peer has, and the hash of all of them."""

    def has(self, position: int, head: bytes) -> bool:
        """Whether this peer's first ``position`` iterations are there and, as far as it can tell, the ones called ``head``."""

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        """What is committed goes up to ``position``, ``head``, and this peer has less or another: fetch it."""

    def removed(self, leader: str) -> None:
        """``leader`` leads the cluster, and this peer is no member of it any more, by another member's word."""

    def wanted(self, peers: list[str]) -> None:
        """The peers to be connected with, after every change of the members."""


class Election(ABC):
    """Base of the elections. ``draw``: where the times between elections are drawn from."""

    name = ""

    def __init__(self) -> None:
        self.draw = random.Random()

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        """Take part as ``me``, beside ``members`` (all of them, ``me`` included); ``term``: of who lets us in.

        ``newcomer``: we are being let in, so we stand for nothing before a leader has spoken to us.
        """
        self.host, self.me = host, me

    @property
    @abstractmethod
    def leader(self) -> str | None:
        """Who leads as far as this peer knows."""

    @property
    @abstractmethod
    def term(self) -> int:
        """Grows with every leader."""

    @property
    @abstractmethod
    def members(self) -> list[str]:
        """All that belong to the cluster, dead ones too, sorted."""

    @property
    @abstractmethod
    def can_commit(self) -> bool:
        """Whether this peer is the leader and sees as many others as a commit needs."""

    def can_remove(self, peer: str) -> bool:
        """Whether this peer is the leader and sees as many others as the removal of ``peer`` needs."""
        return self.can_commit

    @property
    @abstractmethod
    def needed(self) -> int:
        """How many members a commit needs."""

    @abstractmethod
    def propose(self, content: bytes) -> None:
        """Leader: have ``content`` committed. It may be lost, or committed twice; the ledger knows."""

    @abstractmethod
    def add(self, peer: str, done: Callable[[bool], None]) -> None:
        """Leader: let ``peer`` in; ``done(True)`` when that is committed."""

    @abstractmethod
    def remove(self, peer: str, done: Callable[[bool], None]) -> None:
        """Leader: drop ``peer``."""

    @abstractmethod
    def resign(self) -> None:
        """Leader: hand the place over, as far as that is possible."""

    @abstractmethod
    def receive(self, peer: str, message: dict[str, Any]) -> None:
        """A message that :meth:`Host.send` of another peer sent. Raises ValueError for what no peer of this version sends."""

    @abstractmethod
    def connected(self, peer: str, there: bool) -> None:
        """Messages to ``peer`` can be sent now, or no longer."""

    @abstractmethod
    def tick(self) -> None:
        """Called every few milliseconds, and after messages."""

    @abstractmethod
    def stop(self) -> None:
        """Take no more part."""
