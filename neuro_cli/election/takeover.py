"""Takeover: the first peer that notices the loss of the leader takes its place. For machines that trust their network.

The leader commits without asking, so that a cluster works down to its last survivor. The price: a network that splits has a
leader on each side, and when it is whole again the longer history stands and the other side's iterations are undone.
A leader therefore keeps sending to peers that it has removed, since one that only slept may still lead when it wakes.
"""

import logging
from collections.abc import Callable
from typing import Any

from neuro_cli.core import checks
from neuro_cli.core.errors import ConfigError
from neuro_cli.election.base import Election, Host
from neuro_cli.election.messages import Check, checked, content, head, members, name, number

log = logging.getLogger(__name__)

REMEMBERED = 64  # peers that are not members and still get messages
FIELDS: dict[str, dict[str, Check]] = {
    "beat": {"term": number, "position": number, "head": head, "members": members},
    "commit": {"term": number, "content": content},
    "here": {},
    "ahead": {"position": number, "head": head},
    "led": {"leader": name},
}


class Takeover(Election):
    """``heartbeat``, ``timeout_min``, ``timeout_max``: seconds; a leader without a heartbeat for the timeout is replaced."""

    name = "takeover"

    def __init__(self, heartbeat: float, timeout_min: float, timeout_max: float) -> None:
        super().__init__()
        self._heartbeat = checks.number("election.heartbeat", heartbeat, above=0.0)
        self._shortest = checks.number("election.timeout_min", timeout_min, above=heartbeat)
        self._longest = checks.number("election.timeout_max", timeout_max)
        if self._longest <= self._shortest:
            raise ConfigError("election.timeout_max", timeout_max, f"must be > timeout_min={timeout_min:g}")

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        super().start(host, me, members, term, newcomer)
        self._members: set[str] = set()
        self._others: list[str] = []  # the last peers that were removed, or lead others
        self._term = term
        self._leader: str | None = None
        self._beaten = self._deadline = 0.0  # time of the leader's last own message; time at which it may be replaced
        self._postpone()
        self._replace_members({me, *members})
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
            self._tell({"type": "commit", "term": self._term, "content": content}, self._members)
            self.host.commit(content)

    def add(self, peer: str, done: Callable[[bool], None]) -> None:
        self._change(self._members | {peer}, done)

    def remove(self, peer: str, done: Callable[[bool], None]) -> None:
        self._change(self._members - {peer}, done)

    def _change(self, members: set[str], done: Callable[[bool], None]) -> None:
        if not self.can_commit:
            done(False)
            return
        self._replace_members(members)
        self._beat()
        done(True)

    def _replace_members(self, members: set[str]) -> None:
        if members == self._members:
            return
        gone = [*self._others, *sorted(self._members - members)]
        self._others = [peer for peer in gone if peer not in members][-REMEMBERED:]
        self._members = members
        self.host.wanted(sorted({*members, *self._others}))

    def _remember(self, peer: str) -> None:
        """Stay connected with a peer that is not a member: it may lead others."""
        if peer not in self._members and peer not in self._others:
            self._others = [*self._others, peer][-REMEMBERED:]
            self.host.wanted(sorted({*self._members, *self._others}))

    def resign(self) -> None:
        """Stop the heartbeats, and do not lead again."""
        if self.can_commit:
            self._leader, self._deadline = None, float("inf")

    def connected(self, peer: str, there: bool) -> None:
        if peer == self._leader and not there:
            self._deadline = min(self._deadline, self.host.now() + self.draw.uniform(0.0, self._heartbeat))

    def tick(self) -> None:
        now = self.host.now()
        if self.can_commit:
            if now - self._beaten >= self._heartbeat:
                self._beat()
        elif now > self._deadline:
            self._take()
        elif now - self._beaten >= self._longest and self._leader is not None:
            self._beaten = now  # its leader may not know of those who are no members, nor they of it
            self._tell({"type": "led", "leader": self._leader}, set(self._others))

    def stop(self) -> None:
        """Stop sending; the others notice the silence."""

    def _take(self) -> None:
        self._term, self._leader = self._term + 1, self.me
        log.info("takes the leader's place in term %d", self._term)
        self._beat()

    def _beat(self) -> None:
        self._beaten = self.host.now()
        position, head = self.host.position()
        word = {"type": "beat", "term": self._term, "position": position, "head": head, "members": self.members}
        self._tell(word, {*self._members, *self._others})

    def _tell(self, message: dict[str, Any], peers: set[str]) -> None:
        for peer in sorted(peers - {self.me}):
            self.host.send(peer, message)

    def _postpone(self) -> None:
        self._deadline = self.host.now() + self.draw.uniform(self._shortest, self._longest)

    def receive(self, peer: str, message: dict[str, Any]) -> None:
        message = checked(message, FIELDS, self._term)
        kind = message["type"]
        if kind == "beat":
            self._hear(peer, message["term"], message["position"], message["head"], set(message["members"]))
        elif kind == "commit" and peer == self._leader and message["term"] == self._term:
            self._postpone()
            self.host.commit(message["content"])
        elif kind == "ahead" and self.can_commit and message["position"] > self.host.position()[0]:
            self.host.fall_back(message["position"], message["head"], peer)
        elif kind == "led":
            self._remember(message["leader"])
        elif kind == "here" and self.can_commit and peer not in self._members:
            self._change(self._members | {peer}, lambda _: None)

    def _hear(self, peer: str, term: int, position: int, head: bytes, members: set[str]) -> None:
        """Take the heartbeat of a leader: the longer history leads, then the later term, then the lower name."""
        mine, own_head = self.host.position()
        self._remember(peer)
        if peer != self._leader:
            if position < mine and (self.can_commit or term > self._term):
                # its history is shorter: a peer with the longer one takes its place, or reports that it leads
                if self.can_commit and term < self._term:
                    self._beat()
                else:
                    self._term = max(self._term, term)
                    self._take()
                return
            # with the same term and length, the lower name leads
            if self._leader is not None and (term, position, self._leader) < (self._term, mine, peer):
                self._send_on(peer)
                return
            log.info("follows %s in term %d", peer, term)
        self._term, self._leader = max(term, self._term if peer != self._leader else term), peer
        self._postpone()
        self._replace_members(members | {self.me})
        if self.me not in members:
            self.host.send(peer, {"type": "here"})
        if position > mine or (position == mine and head != own_head):
            self.host.fall_back(position, head, peer)
        elif position < mine:  # an outdated heartbeat; or this peer joined with a longer history, which is to stand
            self.host.send(peer, {"type": "ahead", "position": mine, "head": own_head})

    def _send_on(self, peer: str) -> None:
        """Introduce a leader to the one that we follow: two leaders can settle only once they know of each other."""
        if self.can_commit:
            self._beat()
        elif self._leader is not None:
            self.host.send(peer, {"type": "led", "leader": self._leader})
