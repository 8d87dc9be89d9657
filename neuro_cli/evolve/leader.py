"""Leader's part of a peer: collects reports, and proposes an iteration when it is time."""

import logging
import threading
import time
from typing import Protocol

import numpy as np

from neuro_cli.election.base import Election
from neuro_cli.evolve.collector import Collector, ScoreReport
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.ledger.record import InvalidRecordError, LedgerRecord, decoded, encoded
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.messages import Limits
from neuro_cli.evolve.network.rate_limit import RateLimitedLog
from neuro_cli.evolve.settings import Settings
from neuro_cli.selection.base import Selection

log = logging.getLogger(__name__)

PATIENCE = 60.0  # seconds that a founder waits for the peers it has started
AGAIN = 1.0  # seconds after which a proposal that was not committed is made again


class LeaderNode(Protocol):
    """Part of a node that leading needs. ``entered``: set while it takes part in the election."""

    me: str
    settings: Settings
    limits: Limits
    election: Election
    connections: Connections
    heartbeat: Heartbeat
    entered: threading.Event

    @property
    def ledger(self) -> Ledger: ...

    def current_leader(self) -> str | None: ...


class Leader:
    """Leader's part of a node, on the network thread; idle while another peer leads."""

    def __init__(self, node: LeaderNode, selection: Selection, sigma: float) -> None:
        self._node, self._selection, self._sigma = node, selection, sigma
        self.collector = Collector(node.settings.deadline, node.settings.late)
        self._proposed = (-1, 0.0)
        self._waits_until: float | None = None
        self._late, self._dropped = RateLimitedLog(log, 10, logging.INFO), RateLimitedLog(log, 10)

    def wait_for_peers(self) -> None:
        """Wait with the first iteration for the peers that this founder has started."""
        self._waits_until = time.monotonic() + PATIENCE

    def take(self, peer: str, report: ScoreReport) -> None:
        """Take a report, of this peer or another."""
        if self._node.current_leader() != self._node.me:
            return  # its sender will hear of the new leader and send it there
        if not self.collector.take(peer, report, time.monotonic()):
            self._late.say(f"a report of {peer} on iteration {report.scores.iteration} came too late")
        self.decide()

    def decide(self) -> None:
        """Propose the iteration, if this peer leads and all have reported or the deadline has passed."""
        if (
            not self._node.entered.is_set()
            or not self._node.election.can_commit
            or self._node.ledger.next >= self._node.settings.generations
        ):
            return
        now = time.monotonic()
        if self._waits_until is not None:
            at_work = self.collector.at_work(self._node.connections.connected | {self._node.me})
            if len(at_work) < self._node.settings.begin_with and now < self._waits_until:
                return
            self._waits_until = None
        iteration, since = self._proposed
        if self.collector.iteration != self._node.ledger.next or (iteration == self._node.ledger.next and now < since + AGAIN):
            return
        if not self.collector.ready(self._node.connections.connected | {self._node.me}, now):
            return
        missing = self.collector.awaited(self._node.connections.connected | {self._node.me})
        if missing:
            log.info("iteration %d goes on without %s", self._node.ledger.next, ", ".join(sorted(missing)))
        content = self._content()
        if content is None:
            return
        self._proposed = (self._node.ledger.next, now)
        self._node.election.propose(content)
        self._node.election.tick()

    def _content(self) -> bytes | None:
        """Encode the record of the reports, and decode it once as all peers will; None where no usable report is left."""
        while self.collector.reports:
            content = encoded(self._record())
            try:
                decoded(content, self._node.limits.columns)
                return content
            except InvalidRecordError as error:
                everyone = self.collector.reports | self.collector.carried
                peer = max(everyone, key=lambda name: largest(everyone[name]))
                self.collector.drop(peer)
                self._dropped.say(
                    f"the report of {peer} on iteration {self._node.ledger.next} makes no record: it is dropped ({error})"
                )
        return None

    def _record(self) -> LedgerRecord:
        reports = self.collector.all_reports()
        with np.errstate(over="ignore", invalid="ignore"):  # a fitness near the end of float32: see _content
            steps = self._selection.choose([report.scores for report in reports], self._sigma)
        # a late one scored an earlier model and an earlier state of the task: it is in the steps, not in the means
        present = [report for report in reports if report.scores.iteration == self._node.ledger.next]
        members = sum(report.members for report in present)
        means = sum(report.means.astype(np.float64) * report.members for report in present) / members
        return LedgerRecord(
            iteration=self._node.ledger.next,
            term=min(self._node.election.term, 2**63 - 1),
            peers=len(reports),
            members=members,
            best=max(float(report.scores.fitness.max()) for report in reports),
            late=self.collector.too_late,
            parent=self._node.ledger.head[:8],
            steps=tuple(steps),
            means=np.asarray(means, np.float32),
        )

    def changed(self, leader: str | None) -> None:
        log.info("leader is %s in term %d", leader or "none", self._node.election.term)
        self._proposed = (-1, 0.0)
        if leader == self._node.me:
            self._node.heartbeat.expect(self._node.election.members)
            self.collector.begin(self._node.ledger.next)


def largest(report: ScoreReport) -> float:
    """Largest absolute value in a report."""
    return max(float(np.abs(values.astype(np.float64)).max()) for values in (report.scores.fitness, report.means))
