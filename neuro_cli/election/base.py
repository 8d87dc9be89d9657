"""Contract of an election, which decides the leader, the members, and the order of committed proposals.

All methods are called on one thread (the network's). A peer is named by ``identifier@host:port``; the identifier is new
whenever a process starts or joins again, so no peer ever returns under its name with less state than before.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol


class Host(Protocol):
    """Peer that an election works for."""

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""

    def send(self, peer: str, message: dict[str, Any]) -> None:
        """Send a message of plain data; it may be lost."""

    def commit(self, content: bytes) -> None:
        """Take the next committed content."""

    def position(self) -> tuple[int, bytes]:
        """Return the number of iterations of this peer, and the hash of all of them."""

    def has(self, position: int, head: bytes) -> bool:
        """Return whether this peer has the first ``position`` iterations and, as far as it can tell, their hash is ``head``."""

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        """Fetch the committed history up to ``position``, with hash ``head``, since this peer has less or another."""

    def removed(self, leader: str) -> None:
        """Take another member's report that ``leader`` leads the cluster and this peer is no longer a member."""

    def wanted(self, peers: list[str]) -> None:
        """Connect with exactly ``peers``; called after every change of the members."""


class PortHost(Host, Protocol):
    """Peer with a leader port."""

    def open_port(self, port: int) -> str:
        """Listen at ``port`` of this machine too. Returns why that is not possible, "" when it is done."""

    def close_port(self) -> None:
        """Close the port, if it is open."""

    def stop_fetching(self) -> None:
        """End the fetch that :meth:`fall_back` began: nothing that it asked for is taken any more."""

    def knock(self, port: int, peers: list[str], answered: Callable[[list[tuple[str, dict[str, Any]]]], None]) -> None:
        """Try ``port`` on the hosts of ``peers`` and our own; ``answered`` takes name and word of each leader there."""


class Election(ABC):
    """Base of the elections. ``draw``: generator of the times between elections."""

    name = ""

    def __init__(self) -> None:
        self.draw = random.Random()

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        """Take part as ``me``, along with ``members`` (all of them, ``me`` included); ``term``: that of the leader who admits us.

        ``newcomer``: this peer is being admitted, so it is no candidate before it has heard from a leader.
        """
        self.host, self.me = host, me

    @property
    @abstractmethod
    def leader(self) -> str | None:
        """Name of the leader as far as this peer knows."""

    @property
    @abstractmethod
    def term(self) -> int:
        """Term, which grows with every leader."""

    @property
    @abstractmethod
    def members(self) -> list[str]:
        """Members of the cluster, dead ones too, sorted."""

    @property
    @abstractmethod
    def can_commit(self) -> bool:
        """Return whether this peer is the leader and sees as many others as a commit needs."""

    def can_remove(self, peer: str) -> bool:
        """Return whether this peer is the leader and sees as many others as the removal of ``peer`` needs."""
        return self.can_commit

    @property
    @abstractmethod
    def needed(self) -> int:
        """Number of members that a commit needs."""

    @abstractmethod
    def propose(self, content: bytes) -> None:
        """Have ``content`` committed, as the leader. It may be lost, or committed twice; the ledger knows."""

    @abstractmethod
    def add(self, peer: str, done: Callable[[bool], None]) -> None:
        """Add ``peer``, as the leader; ``done(True)`` is called when that is committed."""

    @abstractmethod
    def remove(self, peer: str, done: Callable[[bool], None]) -> None:
        """Remove ``peer``, as the leader."""

    def word(self) -> dict[str, Any] | None:
        """Return the leader's answer at its leader port; None where this peer does not lead or has no such port."""
        return None

    def finished(self) -> None:  # noqa: B027 (most elections have clocks of their own)
        """Note that this peer has finished its own iteration and reports to the leader."""

    @abstractmethod
    def resign(self) -> None:
        """Hand over to another member, as the leader and as far as that is possible."""

    @abstractmethod
    def receive(self, peer: str, message: dict[str, Any]) -> None:
        """Take a message of another peer's :meth:`Host.send`. Raises ValueError for one that no peer of this version sends."""

    @abstractmethod
    def connected(self, peer: str, is_open: bool) -> None:
        """Note that messages to ``peer`` can be sent now, or no longer."""

    @abstractmethod
    def tick(self) -> None:
        """Act on the time that has passed; called every few milliseconds, and after messages."""

    @abstractmethod
    def stop(self) -> None:
        """Stop taking part."""
