"""State of a cluster as one of its peers knows it, for the terminal and for peers that ask."""

import threading
import time
from typing import Any, Protocol

from neuro_cli.election.base import Election
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.peer_ledger import PeerLedger


class StatusNode(Protocol):
    """Part of a node that its status needs."""

    me: str
    election: Election
    heartbeat: Heartbeat
    peer_ledger: PeerLedger
    entered: threading.Event


def status_of(node: StatusNode) -> dict[str, Any]:
    """Members, leader, term, iteration, and of other peers the seconds since their last message; callable on any thread."""
    iteration = node.peer_ledger.ledger.next
    if not node.entered.is_set():
        return {"me": node.me, "members": [node.me], "leader": None, "term": 0, "iteration": iteration, "ages": {}}
    now = time.monotonic()
    members, last_heard = node.election.members, node.heartbeat.last_heard
    return {
        "me": node.me,
        "members": members,
        "leader": node.election.leader,
        "term": node.election.term,
        "iteration": iteration,
        "best": node.peer_ledger.best,
        "ages": {peer: now - last_heard[peer] for peer in members if peer in last_heard},
        "progress": dict(node.heartbeat.progress),
    }
