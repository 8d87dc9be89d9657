"""Contract of an election, which decides the leader, the members, and the order of committed proposals.

All methods are called on one thread (the network's). A peer is named by ``identifier@host:port``; the identifier is new
whenever a process starts or joins again, so no peer ever returns under its name with less state than before.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Host:
    """Services of the peer that an election works for, one function each. Iterations are counted by ``position``.

    ``now()``: seconds of a monotonic clock. ``send(peer, message)``: send plain data, which may be lost.
    ``wanted(peers)``: connect with exactly these; called after every change of the members.
    ``removed(leader)``: a member reports that ``leader`` leads the cluster and this peer is no longer a member.

    ``commit(content)``: take the next committed content. ``position()``: number of this peer's iterations, and their hash.
    ``has(position, head)``: whether the first ``position`` iterations exist here with the hash ``head``, as far as is known.
    ``fall_back(position, head, source)``: fetch the committed history up to ``position``, since this peer has less or another.
    ``stop_fetching()``: end that fetch; nothing that it asked for is taken any more.

    ``open_port(port)``: listen at the leader port too; returns why that is not possible, "" on success. ``close_port()``: close
    it, if it is open. ``knock(port, peers, answered)``: try ``port`` on the hosts of ``peers`` and our own; ``answered`` takes
    name and message of each leader there.
    """

    now: Callable[[], float]
    send: Callable[[str, dict[str, Any]], None]
    wanted: Callable[[list[str]], None]
    removed: Callable[[str], None]
    commit: Callable[[bytes], None]
    position: Callable[[], tuple[int, bytes]]
    has: Callable[[int, bytes], bool]
    fall_back: Callable[[int, bytes, str | None], None]
    stop_fetching: Callable[[], None]
    open_port: Callable[[int], str]
    close_port: Callable[[], None]
    knock: Callable[[int, list[str], Callable[[list[tuple[str, dict[str, Any]]]], None]], None]


class Election(ABC):
    """Base of the elections. ``draw``: generator of the times between elections."""

    name = ""

    def __init__(self) -> None:
        self.draw = random.Random()

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        """Take part in the election as ``me`` with ``members`` (all of them, ``me`` included); ``term``: the admitting leader's.

        ``newcomer``: this peer is being admitted, so it is no candidate before it has heard from a leader.
        """
        self.host, self.me = host, me

    @property
    @abstractmethod
    def leader(self) -> str | None:
        """Name of the leader elected, as far as this peer knows."""

    @property
    @abstractmethod
    def term(self) -> int:
        """Term of the election, which grows with every leader."""

    @property
    @abstractmethod
    def members(self) -> list[str]:
        """Members of the cluster that elects, dead ones too, sorted."""

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
        """Number of members that a commit needs in this election."""

    @abstractmethod
    def propose(self, content: bytes) -> None:
        """Have ``content`` committed, as the elected leader. It may be lost, or committed twice; the ledger knows."""

    @abstractmethod
    def add(self, peer: str, done: Callable[[bool], None]) -> None:
        """Add ``peer``, as the leader; ``done(True)`` is called when that is committed."""

    @abstractmethod
    def remove(self, peer: str, done: Callable[[bool], None]) -> None:
        """Remove ``peer`` from the election's members, as the leader."""

    @abstractmethod
    def resign(self, removed: Callable[[], None]) -> None:
        """Lead no more; ``removed`` is called when this peer, as the leader, has removed itself too."""

    def word(self) -> dict[str, Any] | None:
        """Return the leader's answer at its leader port; None where this peer does not lead or has no such port."""
        return None

    def finished(self) -> None:  # noqa: B027 (most elections have clocks of their own)
        """Note that this peer has finished its own iteration and reports to the leader."""

    @abstractmethod
    def receive(self, peer: str, message: dict[str, Any]) -> None:
        """Take a message of the election. Raises ValueError for one that no peer of this version sends."""

    @abstractmethod
    def connected(self, peer: str, is_open: bool) -> None:
        """Note that messages to ``peer`` can be sent now, or no longer."""

    @abstractmethod
    def tick(self) -> None:
        """Act in the election on the time that has passed; called every few milliseconds, and after messages."""

    @abstractmethod
    def stop(self) -> None:
        """Stop taking part in the election."""
