"""Leader's part of a peer: collects reports, and proposes an iteration when all have come or the deadline has passed."""

import logging
import time

import numpy as np

from neuro_cli.evolve.collector import Collector, ScoreReport
from neuro_cli.evolve.ledger.record import InvalidRecordError, LedgerRecord, decoded, encoded
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.rate_limit import RateLimitedLog
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.peer_state import PeerState
from neuro_cli.selection.base import Selection

log = logging.getLogger(__name__)

PATIENCE = 60.0  # seconds that a founder waits for the peers it has started
AGAIN = 1.0  # seconds after which an uncommitted proposal is repeated


class Leader:
    """Leader's part of a node, on the network thread; idle while another peer leads."""

    def __init__(
        self,
        state: PeerState,
        connections: Connections,
        ledger: PeerLedger,
        heartbeat: Heartbeat,
        selection: Selection,
        sigma: float,
    ) -> None:
        self._state, self._connections, self._ledger, self._heartbeat = state, connections, ledger, heartbeat
        self._selection, self._sigma = selection, sigma
        self.collector = Collector(state.settings.deadline)
        self._proposed = (-1, 0.0)
        self._waits_until: float | None = None
        self._late, self._dropped = RateLimitedLog(log, 10, logging.INFO), RateLimitedLog(log, 10)

    def wait_for_peers(self) -> None:
        """Let the first iteration wait for the peers that this founder has started."""
        self._waits_until = time.monotonic() + PATIENCE

    def take(self, peer: str, report: ScoreReport) -> None:
        """Take a report, of this peer or another."""
        if self._state.leader != self._state.me:
            return  # the sender will hear of the new leader and send its report there
        if not self.collector.take(peer, report, time.monotonic()):
            self._late.say(f"a report of {peer} on iteration {report.scores.iteration} came too late")
        self.decide()

    def decide(self) -> None:
        """Propose the iteration, if this peer leads and all have reported or the deadline has passed."""
        state, iteration, now = self._state, self._ledger.next, time.monotonic()
        if not state.entered.is_set() or not state.election.can_commit or iteration >= state.generations:
            return
        present = self._connections.connected | {state.me}
        if not self._may_begin(present, now):
            return
        proposed, since = self._proposed
        if self.collector.iteration != iteration or (proposed == iteration and now < since + AGAIN):
            return
        if not self.collector.ready(present, now):
            return
        missing = self.collector.awaited(present)
        if missing:
            log.info("iteration %d continues without %s", iteration, ", ".join(sorted(missing)))
        content = self._content()
        if content is None:
            return
        self._proposed = (iteration, now)
        state.election.propose(content)
        state.election.tick()

    def _may_begin(self, present: set[str], now: float) -> bool:
        """Return whether the peers that a founder has started are at work, or were waited for long enough."""
        if self._waits_until is None:
            return True
        if len(self.collector.at_work(present)) < self._state.settings.local_peers and now < self._waits_until:
            return False
        self._waits_until = None
        return True

    def _content(self) -> bytes | None:
        """Encode the record of the reports, and decode it once like all peers; None without a usable report."""
        while self.collector.reports:
            content = encoded(self._record())
            try:
                decoded(content, self._ledger.limits.columns)
                return content
            except InvalidRecordError as error:
                peer = max(self.collector.reports, key=lambda name: largest(self.collector.reports[name]))
                self.collector.drop(peer)
                line = f"the report of {peer} on iteration {self._ledger.next} makes no record: it is dropped ({error})"
                self._dropped.say(line)
        return None

    def _record(self) -> LedgerRecord:
        reports = self.collector.all_reports()
        with np.errstate(over="ignore", invalid="ignore"):  # a fitness near the largest float32: see _content
            steps = self._selection.choose([report.scores for report in reports], self._sigma)
        members = sum(report.members for report in reports)
        means = sum(report.means.astype(np.float64) * report.members for report in reports) / members
        return LedgerRecord(
            iteration=self._ledger.next,
            term=min(self._state.election.term, 2**63 - 1),
            peers=len(reports),
            members=members,
            best=max(float(report.scores.fitness.max()) for report in reports),
            late=self.collector.too_late,
            parent=self._ledger.head[:8],
            steps=tuple(steps),
            means=np.asarray(means, np.float32),
        )

    def changed(self, leader: str | None) -> None:
        log.info("leader is %s in term %d", leader or "none", self._state.election.term)
        self._proposed = (-1, 0.0)
        if leader == self._state.me:
            self._heartbeat.expect(self._state.election.members)
            self.collector.begin(self._ledger.next)


def largest(report: ScoreReport) -> float:
    """Return the largest absolute value in a report."""
    return max(float(np.abs(values.astype(np.float64)).max()) for values in (report.scores.fitness, report.means))
