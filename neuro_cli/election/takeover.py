"""Takeover: when the leader is lost, the first to reach its place takes it. For machines that trust each other and their network.

The leader commits without asking, so that a cluster works down to its last survivor. The price: a network that splits has a
leader on each side, and when it is whole again the longer history stands and the other side's iterations are taken back.
"""

import logging
import random
import time
from collections.abc import Callable
from typing import Any

from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError
from neuro_cli.election.base import Election, Host

log = logging.getLogger(__name__)


class Takeover(Election):
    """``heartbeat``, ``timeout_min``, ``timeout_max`` in seconds: after so much silence of the leader its place is free."""

    name = "takeover"

    def __init__(self, heartbeat: float, timeout_min: float, timeout_max: float) -> None:
        self._heartbeat = number("election.heartbeat", heartbeat, above=0.0)
        self._shortest = number("election.timeout_min", timeout_min, above=heartbeat)
        self._longest = number("election.timeout_max", timeout_max)
        if self._longest <= self._shortest:
            raise ConfigError("election.timeout_max", timeout_max, f"must be > timeout_min={timeout_min:g}")

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        super().start(host, me, members, term, newcomer)
        self._members = {me, *members}
        self._term = term
        self._leader: str | None = None
        self._beaten = self._deadline = 0.0
        self._postpone()
        host.wanted(self.members)
        if self._members == {me}:
            self._take()

    @property
    def leader(self) -> str | None:
        return self._leader

    @property
    def term(self) -> int:
        return self._term

    @property
    def members(self) -> list[str]:
        return sorted(self._members)

    @property
    def can_commit(self) -> bool:
        return self._leader == self.me

    @property
    def needed(self) -> int:
        return 1

    def propose(self, content: bytes) -> None:
        if self.can_commit:
            self._tell({"type": "commit", "term": self._term, "content": content})
            self.host.commit(content)

    def add(self, peer: str, done: Callable[[bool], None]) -> None:
        self._change(self._members | {peer}, done)

    def remove(self, peer: str, done: Callable[[bool], None]) -> None:
        self._change(self._members - {peer}, done)

    def _change(self, members: set[str], done: Callable[[bool], None]) -> None:
        if not self.can_commit:
            done(False)
            return
        self._members = members
        self.host.wanted(self.members)
        self._beat()
        done(True)

    def resign(self) -> None:
        """Be silent, and do not take the place again."""
        if self.can_commit:
            self._leader, self._deadline = None, float("inf")

    def connected(self, peer: str, there: bool) -> None:
        if peer == self._leader and not there:
            self._deadline = min(self._deadline, time.monotonic() + random.uniform(0.0, self._heartbeat))

    def tick(self) -> None:
        now = time.monotonic()
        if self.can_commit:
            if now - self._beaten >= self._heartbeat:
                self._beat()
        elif now > self._deadline:
            self._take()

    def stop(self) -> None:
        """Silence says it."""

    def _take(self) -> None:
        self._term, self._leader = self._term + 1, self.me
        log.info("takes the leader's place in term %d", self._term)
        self._beat()

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        self._tell(self._word())

    def _word(self) -> dict[str, Any]:
        position, head = self.host.position()
        return {"type": "beat", "term": self._term, "position": position, "head": head, "members": self.members}

    def _tell(self, message: dict[str, Any]) -> None:
        for peer in self._members - {self.me}:
            self.host.send(peer, message)

    def _postpone(self) -> None:
        self._deadline = time.monotonic() + random.uniform(self._shortest, self._longest)

    def receive(self, peer: str, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "beat":
            self._hear(peer, int(message["term"]), int(message["position"]), bytes(message["head"]), set(message["members"]))
        elif kind == "commit" and peer == self._leader and message["term"] == self._term:
            self._postpone()
            self.host.commit(bytes(message["content"]))
        elif kind == "here" and self.can_commit and peer not in self._members:
            self._change(self._members | {peer}, lambda _: None)

    def _hear(self, peer: str, term: int, position: int, head: bytes, members: set[str]) -> None:
        """Somebody says that it leads: the longer history leads, then the later term, then the lower name."""
        mine, own_head = self.host.position()
        if peer != self._leader:
            if position < mine and (self.can_commit or term > self._term):
                # its history is shorter: whoever has the longer one takes the place
                self._term = max(self._term, term)
                self._take()
                return
            if self._leader is not None and (term, position) < (self._term, mine):
                return
            if self.can_commit and (position, term, self.me) <= (mine, self._term, peer) and term <= self._term:
                self._beat()
                return
            log.info("follows %s in term %d", peer, term)
        self._term, self._leader = max(term, self._term if peer != self._leader else term), peer
        self._postpone()
        if members | {self.me} != self._members:
            self._members = members | {self.me}
            self.host.wanted(self.members)
        if self.me not in members:
            self.host.send(peer, {"type": "here"})
        if position > mine or (position == mine and head != own_head):
            self.host.fall_back(position, head, peer)
