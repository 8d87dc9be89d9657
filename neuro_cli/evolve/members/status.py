"""State of a cluster as one of its peers knows it, for the terminal and for peers that ask."""

import time
from typing import Any

from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.peer_state import PeerState


def status_of(state: PeerState, heartbeat: Heartbeat, ledger: PeerLedger) -> dict[str, Any]:
    """Return members, leader, term, iteration, and the seconds since each other peer's last message; callable on any thread."""
    if not state.entered.is_set():
        return {"me": state.me, "members": [state.me], "leader": None, "term": 0, "iteration": ledger.next, "ages": {}}
    now = time.monotonic()
    members, last_heard = state.election.members, heartbeat.last_heard
    return {
        "me": state.me,
        "members": members,
        "leader": state.election.leader,
        "term": state.election.term,
        "iteration": ledger.next,
        "best": ledger.best,
        "ages": {peer: now - last_heard[peer] for peer in members if peer in last_heard},
        "progress": dict(heartbeat.progress),
    }
