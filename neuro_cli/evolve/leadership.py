"""What a peer does while it leads: collect reports, and propose an iteration when it is time."""

import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from neuro_cli.evolve.collector import Collector, Report
from neuro_cli.evolve.record import Record, encoded
from neuro_cli.selection.base import Selection

if TYPE_CHECKING:
    from neuro_cli.evolve.node import Node

log = logging.getLogger(__name__)

PATIENCE = 60.0  # seconds that a founder waits for the peers it has started
AGAIN = 1.0  # seconds after which a proposal that was not committed is made again


class Leadership:
    """The leader's part of a node, on its thread; idle while another leads."""

    def __init__(self, node: "Node", selection: Selection, sigma: float) -> None:
        self._node, self._selection, self._sigma = node, selection, sigma
        self.collector = Collector(node.settings.deadline, node.settings.late)
        self._proposed = (-1, 0.0)
        self._waits_until: float | None = None

    def wait_for_peers(self) -> None:
        """A founder gives the peers that it has started time to come."""
        self._waits_until = time.monotonic() + PATIENCE

    def take(self, peer: str, report: Report) -> None:
        """A report for the leader, ours or another's."""
        if self._node.leader() != self._node.me:
            return  # whoever sent it will hear of the new leader and send it there
        if len(report.means) != self._node.score_columns:
            log.error("a report of %s has %d score columns, this task has %d", peer, len(report.means), self._node.score_columns)
            return
        if not self.collector.take(peer, report, time.monotonic()):
            log.info("a report of %s on iteration %d came too late", peer, report.scores.iteration)
        self.decide()

    def decide(self) -> None:
        """As the leader, when all have reported: propose the iteration."""
        if (
            not self._node.entered.is_set()
            or not self._node.election.can_commit
            or self._node.ledger.next >= self._node.settings.generations
        ):
            return
        now = time.monotonic()
        if self._waits_until is not None:
            if len(self._node.links.there) + 1 < self._node.settings.begin_with and now < self._waits_until:
                return
            self._waits_until = None
        iteration, since = self._proposed
        if self.collector.iteration != self._node.ledger.next or (iteration == self._node.ledger.next and now < since + AGAIN):
            return
        if not self.collector.ready(self._node.links.there | {self._node.me}, now):
            return
        missing = self.collector.awaited(self._node.links.there | {self._node.me})
        if missing:
            log.info("iteration %d goes on without %s", self._node.ledger.next, ", ".join(sorted(missing)))
        self._proposed = (self._node.ledger.next, now)
        self._node.election.propose(encoded(self._record()))
        self._node.election.tick()

    def _record(self) -> Record:
        reports = self.collector.all_reports()
        steps = self._selection.choose([report.scores for report in reports], self._sigma)
        # a late one scored an earlier model, whose task may have known less: it is in the steps, not in the means
        present = [report for report in reports if report.scores.iteration == self._node.ledger.next]
        members = sum(report.members for report in present)
        means = sum(report.means.astype(np.float64) * report.members for report in present) / members
        return Record(
            iteration=self._node.ledger.next,
            term=self._node.election.term,
            peers=len(reports),
            members=members,
            best=max(float(report.scores.fitness.max()) for report in reports),
            late=self.collector.too_late,
            parent=self._node.ledger.head[:8],
            steps=tuple(steps),
            means=np.asarray(means, np.float32),
        )

    def new_leader(self, leader: str | None) -> None:
        log.info("leader is %s in term %d", leader or "nobody", self._node.election.term)
        self._proposed = (-1, 0.0)
        if leader == self._node.me:
            self._node.presence.expect(self._node.election.members)
            self.collector.begin(self._node.ledger.next)
