"""Sends a peer's score report to the leader repeatedly, until its iteration is committed."""

import time

from neuro_cli.evolve.collector import ScoreReport, message_of, misfit
from neuro_cli.evolve.leader import Leader
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.peer_state import PeerState

RESEND, LONGEST = 2.0, 16.0  # first and longest pause in seconds before a report is sent again


class Reporter:
    """Keeper of a node's uncommitted report, on the network thread."""

    def __init__(self, state: PeerState, connections: Connections, ledger: PeerLedger, leader: Leader) -> None:
        self._state, self._connections, self._ledger, self._leader = state, connections, ledger, leader
        self._pending: ScoreReport | None = None
        self._sent = False
        self._pause, self._due = RESEND, 0.0

    def submit(self, report: ScoreReport) -> None:
        if misfit(self._state.me, report, self._ledger.limits):
            return  # scored under a former name: the worker scores the members of the new one
        self._pending, self._sent = report, False
        if self._state.entered.is_set():
            self._state.election.finished()
        self.hurry()
        self.send_again(time.monotonic())
        self._leader.decide()

    def hurry(self) -> None:
        """Send the report at the next occasion, as it is new, or the connection is."""
        self._pause, self._due = RESEND, 0.0

    def send_again(self, now: float) -> None:
        """Send the report if it is due, and double the pause before the next time."""
        if now >= self._due:
            self._pause, self._due = min(2 * self._pause, LONGEST), now + self._pause
            self.send()

    def discard(self) -> None:
        """Forget the report: its members belong to a former name, or its iteration to another history."""
        self._pending = None

    def send(self) -> None:
        """Send the report until its iteration is committed: it may have been lost, or the leader is new.

        One that comes later is sent once, so that the leader sees whether this peer is still in time.
        """
        state, report = self._state, self._pending
        if report is None or not state.entered.is_set():
            return
        past = self._ledger.next - 1 - report.scores.iteration
        if past > 0 or (past == 0 and self._sent):
            self._pending = None
            return
        leader = state.election.leader
        if leader == state.me:
            self._leader.take(state.me, report)
        elif leader is not None:
            self._connections.send(leader, message_of(report))
            self._sent = True
