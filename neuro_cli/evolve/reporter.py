"""Sends a peer's score report to the leader, again and again until its iteration is committed."""

import threading
from typing import Protocol

from neuro_cli.election.base import Election
from neuro_cli.evolve.collector import ScoreReport, message_of, misfit
from neuro_cli.evolve.leader import Leader
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.messages import Limits


class ReporterNode(Protocol):
    """Part of a node that its reporter needs."""

    me: str
    limits: Limits
    election: Election
    connections: Connections
    leader: Leader
    entered: threading.Event

    @property
    def ledger(self) -> Ledger: ...


class Reporter:
    """Keeps the report of a node that is not committed yet, on the network thread."""

    def __init__(self, node: ReporterNode) -> None:
        self._node = node
        self._pending: ScoreReport | None = None

    def submit(self, report: ScoreReport) -> None:
        if misfit(self._node.me, report, self._node.limits):
            return  # scored under a name that is given up: the worker scores the members of the new one
        self._pending = report
        if self._node.entered.is_set():
            self._node.election.finished()
        self.send()
        self._node.leader.decide()

    def discard(self) -> None:
        """Forget the report: its members belong to a name that is given up, or its iteration to another history."""
        self._pending = None

    def send(self) -> None:
        """Send the report if its iteration is not committed; it may have been lost, or the leader is new."""
        node, report = self._node, self._pending
        if report is None or not node.entered.is_set():
            return
        if report.scores.iteration < node.ledger.next - 1:
            self._pending = None
            return
        leader = node.election.leader
        if leader == node.me:
            node.leader.take(node.me, report)
        elif leader is not None:
            node.connections.send(leader, message_of(report))
