"""Base of the elections without votes: a leader commits without asking; of several the one with the longest history stays.

The price: a network that splits may have a leader on each side; when it is whole again the longer history stands and the other
side's iterations are undone. A leader therefore keeps sending to peers that it has removed, since one that only slept may still
lead when it wakes.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

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


class LongestHistory(Election):
    """Members, commits, and the choice among leaders. A subclass decides when a peer takes the leader's place (:meth:`_take`)."""

    fields: ClassVar = FIELDS

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        super().start(host, me, members, term, newcomer)
        self._members: set[str] = set()
        self._others: list[str] = []  # the last peers that were removed, or lead others
        self._term = term
        self._leader: str | None = None
        self._replace_members({me, *members})

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
    def leads(self) -> bool:
        return self._leader == self.me

    @property
    def can_commit(self) -> bool:
        return self.leads

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
        self._speak()
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

    @abstractmethod
    def _take(self) -> None:
        """Take the leader's place, if that is possible."""

    @abstractmethod
    def _postpone(self) -> None:
        """Note that the leader lives."""

    def _word(self) -> dict[str, Any]:
        """Leader's message about itself: term, length and hash of its history, members."""
        position, head = self.host.position()
        return {"type": "beat", "term": self._term, "position": position, "head": head, "members": self.members}

    def _speak(self) -> None:
        """Leader: send the message about itself to all."""
        self._tell(self._word(), {*self._members, *self._others})

    def _tell(self, message: dict[str, Any], peers: set[str]) -> None:
        for peer in sorted(peers - {self.me}):
            self.host.send(peer, message)

    def receive(self, peer: str, message: dict[str, Any]) -> None:
        self._receive(peer, checked(message, self.fields, self._term))

    def _receive(self, peer: str, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "beat":
            self._hear(peer, message["term"], message["position"], message["head"], set(message["members"]))
        elif kind == "commit" and peer == self._leader and message["term"] == self._term:
            self._postpone()
            self.host.commit(message["content"])
        elif kind == "ahead" and self.leads and message["position"] > self.host.position()[0]:
            self.host.fall_back(message["position"], message["head"], peer)
        elif kind == "led":
            self._remember(message["leader"])
        elif kind == "here" and self.can_commit and peer not in self._members:
            self._change(self._members | {peer}, lambda _: None)

    def _hear(self, peer: str, term: int, position: int, head: bytes, members: set[str]) -> None:
        """Take the word of a leader: the longer history leads, then the later term, then the lower name."""
        mine, own_head = self.host.position()
        self._remember(peer)
        if peer != self._leader:
            if self._outlives(term, position, mine):
                return
            # with the same term and length, the lower name leads
            if self._leader is not None and (term, position, self._leader) < (self._term, mine, peer):
                self._send_on(peer)
                return
            self._follow(peer, term)
        self._term, self._leader = max(term, self._term if peer != self._leader else term), peer
        self._postpone()
        self._replace_members(members | {self.me})
        if self.me not in members:
            self.host.send(peer, {"type": "here"})
        if position > mine or (position == mine and head != own_head):
            self.host.fall_back(position, head, peer)
        elif position < mine:  # an outdated word; or this peer joined with a longer history, which is to stand
            self.host.send(peer, {"type": "ahead", "position": mine, "head": own_head})

    def _follow(self, peer: str, term: int) -> None:
        """Note that ``peer``, not the leader so far, leads this one from now on."""
        log.info("follows %s in term %d", peer, term)

    @abstractmethod
    def _outlives(self, term: int, position: int, mine: int) -> bool:
        """Decide if another leader, with ``term`` and ``position``, gives way to this peer's history of ``mine`` iterations."""

    def _send_on(self, peer: str) -> None:
        """Introduce a leader to the one that we follow: two leaders can settle only once they know of each other."""
        if self.leads:
            self._speak()
        elif self._leader is not None:
            self.host.send(peer, {"type": "led", "leader": self._leader})
