"""Takeover as published for trusted systems ("Distributed Evolution", section 2.2): no votes, no heartbeats, one leader port.

A peer that completes its own iteration tries to reach the leader. The first one that reaches nobody opens the leader port and
leads. A peer that waits for the leader tries again after the time that its own iteration took. A leader commits without asking.

On one machine one process holds the port, so there is at most one leader. On several machines a peer tries the hosts of all
members, and two of them may open their ports at the same time. Of several leaders the one with the longest history stays. So a
network that splits may have a leader on each side; when it is connected again, the iterations of the shorter side are undone.
A leader therefore keeps sending to peers that it has removed: one that was only suspended may still lead when it wakes.
"""

import logging
from collections.abc import Callable
from typing import Any

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.election.base import Election, Host
from neuro_cli.election.fields import Field
from neuro_cli.election.messages import CONTENT, HEAD, MEMBERS, NAME, NUMBER, InvalidMessageError, checked

log = logging.getLogger(__name__)

REMEMBERED = 64  # peers that are not members and still get messages
SHORTEST, LONGEST = 0.5, 600.0  # bounds of the wait for the leader, in seconds, whatever an iteration took

# fields of each message, with their checks
FIELDS: dict[str, dict[str, Field]] = {
    "beat": {"term": NUMBER, "position": NUMBER, "head": HEAD, "members": MEMBERS},
    "commit": {"term": NUMBER, "content": CONTENT},
    "here": {},
    "level": {},
    "ahead": {"position": NUMBER, "head": HEAD},
    "led": {"leader": NAME},
}


SECONDS = 10.0  # longest wait of a new leader for its peers


class Settling:
    """Settling of a takeover: peers that a new leader waits for. ``longest``: iterations of the peer that is farthest."""

    def __init__(self) -> None:
        self._silent: set[str] = set()
        self._ahead: dict[str, int] = {}  # iterations of each peer that had more than the leader when that took the place
        self._until = 0.0

    def begin(self, connected: set[str], now: float) -> None:
        """Wait for an answer of each peer in ``connected`` after a takeover."""
        self._silent, self._ahead, self._until = set(connected), {}, now + SECONDS

    def answered(self, peer: str, position: int) -> None:
        """Note that ``peer`` is ``position`` iterations far, or (0) not farther than the leader."""
        self._silent.discard(peer)
        self._ahead[peer] = position

    def lost(self, peer: str) -> None:
        """Stop waiting for ``peer``: nobody can fetch its iterations, unless another peer has them and answers."""
        self._silent.discard(peer)
        self._ahead.pop(peer, None)

    @property
    def longest(self) -> int:
        return max(self._ahead.values(), default=0)

    def is_over(self, position: int, now: float) -> bool:
        """Return whether a leader with ``position`` iterations may commit."""
        return now >= self._until or (not self._silent and position >= self.longest)

    def end(self, position: int) -> str:
        """End the wait after a takeover. Returns what the leader does without, "" where it has everything."""
        silent, longest = len(self._silent), max(self.longest, position)
        incomplete = bool(silent) or position < longest
        self._silent, self._ahead = set(), {}
        if not incomplete:
            return ""
        return f"{silent} did not answer, the longest history is {longest}, ours {position}"


class FirstToFinish(Election):
    """Takeover by the first peer to finish; ``port``: the leader's, the same on every machine."""

    name = "takeover"

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = integer("election.port", port, 1, 65535)
        self._started = False

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        super().start(host, me, members, term, newcomer)
        self._started, self._term = True, term
        self._leader: str | None = None
        self._connected: set[str] = set()
        self._since, self._cycle = host.now(), SHORTEST  # start of this iteration; duration of our last one
        self._due = float("inf")  # time to try the port: never while our own iteration is under way
        self._knocks = self._resigned = self._warned = False
        self._settling = Settling()
        self._members: set[str] = set()
        self._others: list[str] = []  # the last peers that were removed, or lead others
        self._replace_members({me, *members})
        if self._members == {me}:
            trouble = self._open()
            if trouble:
                raise ConfigError("election.port", self._port, f"the leader port cannot be opened: {trouble}")

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
        """Return whether this peer leads, and has the iterations of the peers that it could ask when it took the place."""
        return self.leads and self._settling.is_over(self.host.position()[0], self.host.now())

    @property
    def needed(self) -> int:
        return 1

    # commits

    def propose(self, content: bytes) -> None:
        if self.can_commit:
            self._settle()
            self._tell({"type": "commit", "term": self._term, "content": content}, {*self._members, *self._others})
            self._commit(content)

    def _settle(self) -> None:
        """Log what this leader does without: its first iteration undoes those that only others have."""
        missing = self._settling.end(self.host.position()[0])
        if missing:
            log.warning("leads after %g s without what others may have: %s", SECONDS, missing)
            self.host.stop_fetching()

    def _commit(self, content: bytes) -> None:
        """Commit. A record that does not follow our history, or that came twice, ends no iteration of ours."""
        before = self.host.position()[0]
        self.host.commit(content)
        if self.host.position()[0] > before:
            self._since, self._due = self.host.now(), float("inf")

    # members

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

    def connected(self, peer: str, is_open: bool) -> None:
        (self._connected.add if is_open else self._connected.discard)(peer)
        if is_open and self.leads:
            self.host.send(peer, self._word())
        elif not is_open:
            self._settling.lost(peer)
            if peer == self._leader and self._due < float("inf"):
                self._due = self.host.now()

    # the leader port

    def finished(self) -> None:
        now = self.host.now()
        self._cycle = min(max(now - self._since, SHORTEST), LONGEST)
        self._due = now + (self._cycle if self.leads or self._leader in self._connected else 0.0)

    def tick(self) -> None:
        now = self.host.now()
        if now < self._due or self._resigned:
            return
        self._due = now + self._cycle
        if self.leads:
            self._speak()  # the peer that we wait for may not know of us
        elif not self._knocks:
            self._knocks = True
            self.host.knock(self._port, sorted({*self._members, *self._others}), self._knocked)

    def _knocked(self, words: list[tuple[str, dict[str, Any]]]) -> None:
        """Follow who answered at the leader port. Where nobody did, take the place, unless the iteration came meanwhile."""
        self._knocks = False
        if self.leads or self._resigned:
            return
        if self._leader not in [peer for peer, _ in words]:
            self._leader = None
        for peer, word in words:
            try:
                self._receive(peer, checked(word, {"beat": FIELDS["beat"]}, self._term))
            except InvalidMessageError as error:
                log.warning("%s at the leader port: %s", peer, error)
        if not words and self._due < float("inf"):
            self._take()

    def _take(self) -> None:
        trouble = self._open()
        if trouble and not self._warned:
            self._warned = True
            log.warning("nobody answers at the leader port %d, and it cannot be opened here: %s", self._port, trouble)

    def _open(self) -> str:
        trouble = self.host.open_port(self._port)
        if not trouble:
            self._term, self._leader, self._warned = self._term + 1, self.me, False
            self.host.stop_fetching()  # a fetch would undo what this leader commits
            self._settling.begin(self._connected, self.host.now())
            log.info("nobody answered at the leader port %d: leads in term %d", self._port, self._term)
            self._speak()
        return trouble

    def resign(self, removed: Callable[[], None]) -> None:
        """Close the port, and do not lead again; whoever takes the place removes this peer when asked."""
        self._resigned = True
        if self.leads:
            self._leader = None
            self.host.close_port()

    def stop(self) -> None:
        """Close the leader's port, where the others then reach nobody."""
        self._resigned = True
        if self._started:
            self.host.close_port()

    # messages

    def word(self) -> dict[str, Any] | None:
        return self._word() if self._started and self.leads else None

    def _word(self) -> dict[str, Any]:
        """Return the leader's message about itself: term, length and hash of its history, members."""
        position, head = self.host.position()
        return {"type": "beat", "term": self._term, "position": position, "head": head, "members": self.members}

    def _speak(self) -> None:
        """Send the leader's message about itself to all."""
        self._tell(self._word(), {*self._members, *self._others})

    def _tell(self, message: dict[str, Any], peers: set[str]) -> None:
        for peer in sorted(peers - {self.me}):
            self.host.send(peer, message)

    def receive(self, peer: str, message: dict[str, Any]) -> None:
        self._receive(peer, checked(message, FIELDS, self._term))

    def _receive(self, peer: str, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind in ("level", "ahead"):
            self._settling.answered(peer, message.get("position", 0))
        if kind == "beat":
            self._hear(peer, message["term"], message["position"], message["head"], set(message["members"]))
        elif kind == "commit" and peer == self._leader:  # whatever its term: the ledger knows whether it follows our history
            self._commit(message["content"])
        elif kind == "commit":
            self._introduce(peer)  # a leader of others, or one that was suspended
        elif kind == "ahead" and self.leads and message["position"] > self.host.position()[0]:
            self.host.fall_back(message["position"], message["head"], peer)
        elif kind == "led":
            self._remember(message["leader"])
            if self.leads:
                self.host.send(message["leader"], self._word())
        elif kind == "here" and self.can_commit and peer not in self._members:
            self._change(self._members | {peer}, lambda _: None)

    def _hear(self, peer: str, term: int, position: int, head: bytes, members: set[str]) -> None:
        """Take the word of a leader: the longer history leads, then the later term, then the lower name."""
        mine, own_head = self.host.position()
        led = self.leads
        self._remember(peer)
        if peer != self._leader:
            if led and position < mine:
                self._outbid(term)
                return
            if self._leader is not None and (term, position, self._leader) < (self._term, mine, peer):
                self._introduce(peer)
                return
            log.info("follows %s in term %d", peer, term)
            self.host.stop_fetching()  # records under way, perhaps of a dead leader, would come after we said how far we are
        self._term, self._leader = max(term, self._term if peer != self._leader else term), peer
        if self._due < float("inf"):  # our iteration is finished: wait longer for the leader's commit
            self._due = self.host.now() + self._cycle
        self._replace_members(members | {self.me})
        if self.me not in members:
            self.host.send(peer, {"type": "here"})
        if led:
            self.host.close_port()
        self._compare(peer, position, head, mine, own_head)

    def _compare(self, peer: str, position: int, head: bytes, mine: int, own_head: bytes) -> None:
        """Fetch what the leader ``peer`` has and we lack, or report how far we are."""
        if position > mine or (position == mine and head != own_head):
            self.host.fall_back(position, head, peer)
        elif position < mine:  # an outdated word; or this peer joined with a longer history, which is to stand
            self.host.send(peer, {"type": "ahead", "position": mine, "head": own_head})
        if position >= self.host.position()[0]:
            self.host.send(peer, {"type": "level"})

    def _outbid(self, term: int) -> None:
        """Stay the leader, in a term that is not earlier than that of another leader with a shorter history."""
        self._term = max(self._term, term + (term >= self._term))
        self._speak()

    def _introduce(self, peer: str) -> None:
        """Introduce a leader to the one that we follow: two leaders can settle only once they know of each other."""
        if self.leads:
            self._speak()
        elif self._leader is not None:
            self.host.send(peer, {"type": "led", "leader": self._leader})
