"""Raft by pysyncobj (Ongaro and Ousterhout 2014): a majority commits, and what it committed no later leader loses.

The library brings the algorithm; what it would put on the wire or on the disk by itself is replaced:

- its transport by ours, which is authenticated and encrypted, and its pickles by plain data;
- its journal by memory. A process that died never comes back under its old name: it joins as a new member that remembers
  nothing, so that nothing has to survive on a disk (term, vote and log of a member live exactly as long as its name).
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import pysyncobj.serializer
import pysyncobj.syncobj
from pysyncobj import SyncObj, SyncObjConf, SyncObjConsumer, replicated
from pysyncobj.config import FAIL_REASON
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError
from neuro_cli.election.base import Election, Host
from neuro_cli.election.plain import PlainPickle

log = logging.getLogger(__name__)

# no byte of a peer may reach an unpickler
pysyncobj.syncobj.pickle = PlainPickle
pysyncobj.serializer.pickle = PlainPickle
logging.getLogger("pysyncobj").setLevel(logging.ERROR)
LOG, DEADLINE = "_SyncObj__raftLog", "_SyncObj__raftElectionDeadline"
FOREVER = 1e9  # seconds


class Raft(Election):
    """``heartbeat``, ``timeout_min``, ``timeout_max`` in seconds; ``keep``: entries of the library's log before it is cut."""

    name = "raft"

    def __init__(self, heartbeat: float, timeout_min: float, timeout_max: float, keep: int) -> None:
        self._heartbeat = number("election.heartbeat", heartbeat, above=0.0)
        self._shortest = number("election.timeout_min", timeout_min, above=3 * heartbeat)
        self._longest = number("election.timeout_max", timeout_max)
        self._keep = integer("election.keep", keep, 10)
        if self._longest <= self._shortest:
            raise ConfigError("election.timeout_max", timeout_max, f"must be > timeout_min={timeout_min:g}")
        self._raft: SyncObj | None = None

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        super().start(host, me, members, term, newcomer)
        others = [Node(peer) for peer in members if peer != me]
        self._link = _Link(self, [node.id for node in others])
        self._changes: deque[tuple[str, str, Callable[[bool], None]]] = deque()
        self._changing = False
        conf = SyncObjConf(
            autoTick=False,
            dynamicMembershipChange=True,
            appendEntriesUseBatch=False,  # with batches every commit would wait for a heartbeat
            appendEntriesPeriod=self._heartbeat,
            appendEntriesBatchSizeBytes=2**20,
            raftMinTimeout=self._shortest,
            raftMaxTimeout=self._longest,
            connectionTimeout=self._longest,
            # without a majority a leader commits nothing, but it may remove the dead one of an even number: see can_remove
            leaderFallbackTimeout=FOREVER,
            logCompactionMinEntries=self._keep,
            logCompactionMinTime=FOREVER,
            useFork=False,
            commandsWaitLeader=False,
        )
        self._commits = _Commits(host)
        self._raft = SyncObj(Node(me), others, conf, [self._commits], transport=self._link, nodeClass=Node)
        if newcomer:  # the leader's first word sets it
            setattr(self._raft, DEADLINE, float("inf"))

    @property
    def _sync(self) -> SyncObj:
        assert self._raft is not None, "start comes first"
        return self._raft

    @property
    def leader(self) -> str | None:
        node = self._sync._getLeader()
        return None if node is None else str(node.id)

    @property
    def term(self) -> int:
        return int(self._sync.raftCurrentTerm)

    @property
    def members(self) -> list[str]:
        return sorted([self.me, *(node.id for node in self._sync.otherNodes)])

    @property
    def can_commit(self) -> bool:
        return bool(self._sync._isLeader() and self._sync.hasQuorum)

    def can_remove(self, peer: str) -> bool:
        """A change of the members counts from the moment it is in the log, so those who stay are to agree (Ongaro 2014, 4.1).

        The leader of two may so remove the other: a majority of two and one of one have a member in common.
        """
        staying = set(self.members) - {peer}
        return bool(self._sync._isLeader() and len(self._link.there & staying) + 1 > len(staying) / 2)

    @property
    def needed(self) -> int:
        return len(self.members) // 2 + 1

    def propose(self, content: bytes) -> None:
        self._commits.commit(content)

    def add(self, peer: str, done: Callable[[bool], None]) -> None:
        self._changes.append(("add", peer, done))

    def remove(self, peer: str, done: Callable[[bool], None]) -> None:
        self._changes.append(("remove", peer, done))

    def resign(self) -> None:
        if self._sync._isLeader():
            self._sync.transferLeadership()

    def receive(self, peer: str, message: dict[str, Any]) -> None:
        self._link.receive(peer, message)

    def connected(self, peer: str, there: bool) -> None:
        self._link.connected(peer, there)

    def tick(self) -> None:
        if self._raft is not None:
            self._sync.doTick(0.0)
            if not self._sync.otherNodes:
                self._sync.doTick(0.0)  # nobody's answer is needed: what the first put into the log the second commits
            self._change()

    def _change(self) -> None:
        """Begin the next change of the members: one at a time, as Raft's single-server changes must be."""
        if not self._sync._isLeader():
            # the library may never say what became of a change of a leader that was deposed
            self._changing = False
            while self._changes:
                self._changes.popleft()[2](False)
            return
        if self._changing or not self._changes:
            return
        what, peer, done = self._changes.popleft()
        there = peer in self.members
        if there == (what == "add"):
            done(True)
            return
        self._changing = True

        def ended(_: Any, reason: int) -> None:
            self._changing = False
            if reason == FAIL_REASON.REQUEST_DENIED:  # the leader's first entry is not committed yet
                self._changes.append((what, peer, done))
            else:
                done(reason == FAIL_REASON.SUCCESS)

        order = self._sync.addNodeToCluster if what == "add" else self._sync.removeNodeFromCluster
        order(Node(peer), callback=ended)

    def stop(self) -> None:
        if self._raft is not None:
            self._raft.destroy()
            self._raft = None


class _Commits(SyncObjConsumer):
    """What pysyncobj replicates: a call for every committed content. The ledger itself lives at the host."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    @replicated
    def commit(self, content: bytes) -> None:
        if isinstance(content, bytes):
            self._host.commit(content)

    def _serialize(self) -> dict[str, Any]:
        """What stands for the entries that the library drops from its log."""
        position, head = self._host.position()
        return {"position": position, "head": head}

    def _deserialize(self, data: dict[str, Any]) -> None:
        self._host.fall_back(int(data["position"]), bytes(data["head"]), None)


class _Link(Transport):
    """Hands pysyncobj's messages to the host's network and back, and mends two of its habits on the way."""

    def __init__(self, raft: Raft, others: list[str]) -> None:
        super().__init__(None, None, None)
        self._election, self._wanted, self._there = raft, set(others), set[str]()
        self._leaders: set[str] = set()  # who has spoken to us as the leader, a member by our own (perhaps old) list or not
        self._tell()

    @property
    def there(self) -> set[str]:
        return self._there

    def _tell(self) -> None:
        self._election.host.wanted(sorted(self._wanted | self._leaders))

    ready = True

    def tryGetReady(self) -> None:  # noqa: N802 (the library's name)
        """Always is."""

    def waitReady(self) -> None:  # noqa: N802
        """Always is."""

    def addNode(self, node: Node) -> None:  # noqa: N802
        self._wanted.add(node.id)
        self._tell()
        if node.id in self._there:
            self._onNodeConnected(node)

    def dropNode(self, node: Node) -> None:  # noqa: N802
        self._wanted.discard(node.id)
        self._onNodeDisconnected(node)
        self._tell()

    def destroy(self) -> None:
        self._wanted.clear()

    def connected(self, peer: str, there: bool) -> None:
        (self._there.add if there else self._there.discard)(peer)
        if peer in self._wanted:
            (self._onNodeConnected if there else self._onNodeDisconnected)(Node(peer))

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        if message["type"] == "next_node_idx":
            # an answer that names no term could count in a later term of the same leader
            message = {**message, "term": self._election.term}
        self._election.host.send(node.id, message)
        return True

    def receive(self, peer: str, message: dict[str, Any]) -> None:
        sync = self._election._raft
        if sync is None:
            return
        if message.get("type") == "append_entries":
            if self._leaders != {peer}:
                self._leaders = {peer}
                self._tell()
        elif peer not in self._wanted:
            return  # one that was removed, or whose admission this member has not seen yet: Raft asks again
        if message.get("type") == "next_node_idx" and message["term"] != self._election.term:
            return
        if message.get("type") == "append_entries" and message.get("entries") is not None and "transmission" not in message:
            message = _without_known(message, getattr(sync, LOG))
        self._onMessageReceived(Node(peer), message)


def _without_known(message: dict[str, Any], log_: Any) -> dict[str, Any]:
    """The message without entries that this member has: the library would cut its log there and append them again.

    Entries are the same if index and term are. Where all are known, and what the log has beyond is of the sender's own
    term, the message was overtaken by later ones of the same leader, and nothing may be cut.
    """
    first, entries = log_[0][1], list(message["entries"])
    index, term = message["prevLogIdx"], message["prevLogTerm"]

    def term_at(place: int) -> int | None:
        return int(log_[place - first][2]) if first <= place <= log_[-1][1] else None

    if index is None or term_at(index) != term:
        return message
    while entries and term_at(entries[0][1]) == entries[0][2]:
        _, index, term = entries.pop(0)
    if not entries and log_[-1][1] > index and term_at(index + 1) == message["term"]:
        _, index, term = log_[-1]
    return {**message, "entries": entries, "prevLogIdx": index, "prevLogTerm": term}
