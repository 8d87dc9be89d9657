"""Worker of a peer, on its main thread: scores members, reports, applies committed records, writes the run folder."""

import logging
import queue
import time
from typing import Any

import numpy as np

from neuro_cli.algo.base import Proposal
from neuro_cli.distribution.finite import refuse_nan
from neuro_cli.evolve.collector import ScoreReport
from neuro_cli.evolve.ledger.file import sync_ledger
from neuro_cli.evolve.node import Committed, Failed, Reset
from neuro_cli.evolve.node_thread import NodeThread
from neuro_cli.evolve.peer_ledger import Snapshot
from neuro_cli.evolve.training.model import apply, first_member, local_iterations, moved_by, restore_snapshot, steps_of, stride
from neuro_cli.logger.columns import CLUSTER_COLUMNS, Cost, row_of, training_row
from neuro_cli.run_folder.record import RunRecord as RunFolder
from neuro_cli.runner.build import Parts
from neuro_cli.runner.loop import Progression
from neuro_cli.runner.population import PopulationTraining
from neuro_cli.runner.stop_signals import StopRequest
from neuro_cli.runner.stop_target import Target
from neuro_cli.selection.base import Scores, Selection

log = logging.getLogger(__name__)

WAIT = 0.1  # seconds between two checks of signals and the clock


class SeedPassing(PopulationTraining):
    """Peer's part of a cluster's run, for its run folder. ``scored``: members of all peers; ``rate``: members per second.

    ``wire``: bytes sent and received for each of its rows; the first one includes the joining.
    """

    scored = 0
    rate = 0.0

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.wire: list[tuple[int, int]] = []

    def facts(self) -> dict[str, Any]:
        sent, received = np.mean(self.wire[1:] or [(0, 0)], axis=0).tolist()
        wire = {"bytes_sent_per_iteration": sent, "bytes_received_per_iteration": received} if self.wire[1:] else {}
        return {"candidates_per_second": self.rate, "ledger_head": steps_of(self.parts).head.hex(), **wire}


class PeerWorker:
    """Worker of one peer: scoring and run folder. ``initial``: the model at the start of a replay."""

    def __init__(
        self,
        work: SeedPassing,
        network: NodeThread,
        selection: Selection,
        folder: RunFolder,
        initial: Snapshot,
    ) -> None:
        parts = work.parts
        self._work, self._parts, self._selection = work, parts, selection
        self._network, self._node = network, network.node
        self._folder, self._initial = folder, initial
        self._at = Progression(generation=steps_of(parts).iteration)
        self._begun = self._last = time.perf_counter()
        self._scored = (-1, "")  # iteration, and our name when its members were scored
        self._traffic = (0, 0)
        self._saved = -1
        self._goal, self._reached = Target(parts.config.stop, work.metrics), False

    def run(self, stop: StopRequest) -> dict[str, Any]:
        """Work until all iterations are committed or a stop is wanted. Returns the summary. Raises UserError."""
        total = self._parts.config.generations
        self._keep_base()
        try:
            while self._at.generation < total and not self._reached and not stop.wanted():
                self._apply_events(block=self._has_scored() or not self._node.entered.is_set())
                if not self._has_scored() and self._at.generation < total and not self._reached and self._caught_up():
                    self._score()
        finally:
            done = self._at.generation >= total
            self._network.stop(leave=not done)
        self._apply_events(block=False)  # records that were committed while this peer left
        done = self._at.generation >= total
        if not done:
            again = f"neuro evolve cluster.from_run={self._folder.run}"
            log.warning("stopped after iteration %d (%s); continue with: %s cluster.join=HOST:PORT, or cluster.force_new=true",
                        self._at.generation, str(self._goal) if self._reached else stop.reason, again)  # fmt: skip
        return self._finish()

    def _has_scored(self) -> bool:
        """Return whether the members of this iteration are scored; a peer with a new name has other members."""
        return self._scored == (self._at.generation, self._node.me)

    def _caught_up(self) -> bool:
        """Return whether this peer is at the cluster's iteration, as far as it knows; else it has records to apply first."""
        return self._node.entered.is_set() and self._node.events.empty() and self._node.ledger.next == self._at.generation

    def _apply_events(self, block: bool) -> None:
        """Apply all records committed meanwhile, up to our last iteration; ``block``: wait for the first one."""
        total = self._parts.config.generations
        try:
            event = self._node.events.get(timeout=WAIT) if block else self._node.events.get_nowait()
            while not self._reached and self._at.generation < total:
                self._apply_event(event)
                event = self._node.events.get_nowait()
        except queue.Empty:
            pass

    def _apply_event(self, event: Committed | Reset | Failed) -> None:
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, Reset):
            self._reset(event)
            return
        with self._parts.clock.phase("update"):
            apply(self._parts, event.record, event.head)
        self._at.generation += 1
        if self._node.ledger.next <= self._at.generation + 1:
            self._row(event)
        else:  # a newcomer's history has no rows
            self._last = time.perf_counter()
        self._network.work_on(self._at.generation)

    def _reset(self, reset: Reset) -> None:
        """Begin again from a snapshot, or from the initial model."""
        restore_snapshot(self._parts, reset.snapshot or self._initial)
        if reset.snapshot is not None:
            log.info("begins with a snapshot of iteration %d", reset.snapshot.iteration)
        self._at.generation = steps_of(self._parts).iteration
        self._scored, self._saved = (-1, ""), -1
        self._keep_base()

    def _keep_base(self) -> None:
        """Save a checkpoint where the ledger lacks the first iterations: a kill before the next one would leave no model."""
        if 0 < self._node.ledger.base <= self._at.generation:  # a newcomer may not have its snapshot yet
            self._save()

    def _score(self) -> None:
        iteration, me = self._at.generation, self._node.me
        self._network.work_on(iteration)
        report = tries(self._parts, self._selection, me, iteration)
        self._scored = (iteration, me)
        self._network.submit(report)

    def _row(self, event: Committed) -> None:
        parts, at, record = self._parts, self._at, event.record
        config = parts.config
        last = at.generation >= config.generations
        evaluated = last or at.generation % config.evaluate.every == 0
        if evaluated:
            at.metrics = self._work.evaluate(at.generation)
            self._reached = self._goal.reached(at.metrics)
        now = time.perf_counter()
        seconds, self._last = max(now - self._last, 1e-9), now
        means = record.means.astype(np.float64)
        at.seconds = now - self._begun
        self._work.scored += record.members
        sent, received = (new - old for new, old in zip(event.traffic, self._traffic, strict=True))
        self._traffic = event.traffic
        self._work.wire.append((sent, received))
        training = training_row(float(means[0]), record.best, parts.distribution.loss_of(means))
        training |= parts.task.measures(means, record.members, seconds)
        tested = self._work.tested(at.metrics if evaluated else None)
        cost = Cost(seconds, parts.clock.take(), sent, received, record.members)
        cluster = dict(zip(CLUSTER_COLUMNS, (record.peers, record.term, record.late, int(event.leads)), strict=True))
        sigma = parts.algo.sigma_at(at.generation - 1)
        self._folder.row(row_of(at.generation, training, tested, cost, **cluster, elapsed_seconds=at.seconds, sigma=sigma))
        compacts = at.generation % config.plain["cluster"]["compact_every"] == 0
        if last or compacts or at.generation % config.checkpoint.every == 0:
            self._save()
        if compacts:
            self._network.compact(at.generation)

    def _save(self) -> None:
        if self._saved != self._at.generation:
            self._folder.refuse_other()
            sync_ledger(self._folder.run)  # a machine that goes down must leave no checkpoint that is ahead of its ledger
            scalars = {"seconds": self._at.seconds, "metrics": self._at.metrics}
            self._work.save(self._at.generation, scalars, self._folder)
            self._network.mark_ledger()
            self._saved = self._at.generation

    def _finish(self) -> dict[str, Any]:
        if self._at.metrics is None or self._saved != self._at.generation:
            self._at.metrics = self._work.evaluate(self._at.generation)
        self._save()
        self._at.seconds = time.perf_counter() - self._begun
        self._work.rate = self._work.scored / self._at.seconds
        digest = self._work.parameters_sha256()
        return self._folder.finish(self._work, self._at.generation, self._at.seconds, self._at.metrics or {}, digest)


def tries(parts: Parts, selection: Selection, me: str, iteration: int) -> ScoreReport:
    """Score the members of the peer ``me`` and return its report.

    All local iterations are scored on the examples of ``iteration``, so that the fitnesses of different peers compare, and each
    has members of its own. The rounds move a copy of the parameters, not the model.
    """
    population, rounds = parts.config.population, local_iterations(parts)
    scorer, sigma, centre = parts.distribution.job.scorer, steps_of(parts).sigma, steps_of(parts).centre
    first, path, means = first_member(me, iteration, parts), (), []  # type: int, tuple[int, ...], list[np.ndarray]
    while True:
        members = range(first, first + population)
        sums = scorer.scores(Proposal.around(centre, sigma), iteration, members)
        scores = scorer.means(sums)
        refuse_nan(scores, iteration, parts.task)
        means.append(scores.mean(axis=0))
        chosen = selection.report(Scores(iteration, first, scores[:, 0], path))
        if len(means) == rounds:
            break
        steps = selection.choose([chosen], sigma)
        centre = centre + moved_by(parts, steps[-1])
        path, first = tuple(step.first for step in steps), first + stride(parts)
    return ScoreReport(chosen, population * rounds, np.mean(means, axis=0).astype(np.float32))
