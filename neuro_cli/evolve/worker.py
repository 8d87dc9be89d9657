"""What a peer does on its main thread: score members, report, apply what is committed, keep its run folder."""

import logging
import queue
import time
from typing import Any

import numpy as np

from neuro_cli.distribution.base import refuse_nan
from neuro_cli.evolve.collector import ScoreReport
from neuro_cli.evolve.display import ClusterDisplay
from neuro_cli.evolve.events import Committed, Failed, Reset
from neuro_cli.evolve.model import apply, first_member, restore_snapshot, steps_of
from neuro_cli.evolve.node import Node
from neuro_cli.evolve.state_transfer import Snapshot
from neuro_cli.run_folder.record import RunRecord as RunFolder
from neuro_cli.runner.loop import Progression
from neuro_cli.runner.population import PopulationTraining
from neuro_cli.runner.stop import StopRequest
from neuro_cli.runner.target import Target
from neuro_cli.selection.base import Scores, Selection

log = logging.getLogger(__name__)

WAIT = 0.1  # seconds between two looks at signals and the clock


class SeedPassing(PopulationTraining):
    """A peer's part of a cluster's run, for its run folder. ``scored``: members of all peers, ``rate`` of them a second."""

    scored = 0
    rate = 0.0

    def facts(self) -> dict[str, Any]:
        return {"candidates_per_second": self.rate, "ledger_head": steps_of(self.parts).head.hex()}


class PeerWorker:
    """One peer's scoring and bookkeeping. ``initial``: what a replay begins with."""

    def __init__(
        self,
        work: SeedPassing,
        node: Node,
        selection: Selection,
        folder: RunFolder,
        view: ClusterDisplay | None,
        initial: Snapshot,
    ) -> None:
        parts = work.parts
        self._work, self._parts, self._node, self._selection = work, parts, node, selection
        self._folder, self._view = folder, view
        self._initial = initial
        self._at = Progression(generation=steps_of(parts).iteration)
        self._begun = self._last = time.perf_counter()
        self._scored = (-1, "")  # the iteration, and the name under which its members were scored
        self._traffic = (0, 0)
        self._replayed, self._replay_seconds = 0, 0.0
        self._saved = -1
        self._goal, self._reached = Target(parts.config, work.metrics), False

    def run(self, stop: StopRequest) -> dict[str, Any]:
        """Work until all iterations are committed or a stop is wanted; the summary. Raises UserError."""
        total = self._parts.config["generations"]
        try:
            while self._at.generation < total and not self._reached and not stop.wanted():
                self._take_news(block=self._has_scored() or not self._node.entered.is_set())
                if not self._has_scored() and self._at.generation < total and not self._reached and self._caught_up():
                    self._score()
                if self._view is not None:
                    self._view.show(self._node.status())
        finally:
            done = self._at.generation >= total
            self._node.stop(leave=not done)
        self._take_news(block=False)  # what was committed while we left
        done = self._at.generation >= total
        if not done:
            again = f"neuro evolve cluster.from_run={self._folder.run}"
            log.warning("stopped after iteration %d (%s); go on with: %s cluster.join=HOST:PORT, or cluster.force_new=true",
                        self._at.generation, str(self._goal) if self._reached else stop.reason, again)  # fmt: skip
        return self._finish()

    def _has_scored(self) -> bool:
        """Whether there is nothing to score now: who enters again under another name has other members."""
        return self._scored == (self._at.generation, self._node.me)

    def _caught_up(self) -> bool:
        """Whether this peer is at the cluster's iteration, as far as it knows: else there is more to apply first."""
        return self._node.entered.is_set() and self._node.news.empty() and self._node.ledger.next == self._at.generation

    def _take_news(self, block: bool) -> None:
        """Apply what has been committed meanwhile; wait for the first of it when there is nothing else to do."""
        try:
            news = self._node.news.get(timeout=WAIT) if block else self._node.news.get_nowait()
            while not self._reached:
                self._take(news)
                news = self._node.news.get_nowait()
        except queue.Empty:
            pass

    def _take(self, news: Committed | Reset | Failed) -> None:
        if isinstance(news, Failed):
            raise news.error
        if isinstance(news, Reset):
            self._reset(news)
            return
        start = time.perf_counter()
        with self._parts.clock.phase("update"):
            apply(self._parts, news.record, news.head)
        self._at.generation += 1
        live = self._node.ledger.next <= self._at.generation + 1
        if live:
            if self._replayed:
                self._tell_replay()
            self._row(news)
        else:
            self._replayed += 1
            self._replay_seconds += time.perf_counter() - start
            self._last = time.perf_counter()
        self._node.work_on(self._at.generation)

    def _tell_replay(self) -> None:
        count, seconds = self._replayed, self._replay_seconds
        log.info("replayed %d iterations in %.2f s (%.0f/s)", count, seconds, count / max(seconds, 1e-9))
        self._replayed, self._replay_seconds = 0, 0.0

    def _reset(self, reset: Reset) -> None:
        """Begin again, from a snapshot or from the start."""
        restore_snapshot(self._parts, reset.snapshot or self._initial)
        if reset.snapshot is not None:
            log.info("begins with a snapshot of iteration %d", reset.snapshot.iteration)
        self._at.generation = steps_of(self._parts).iteration
        self._scored, self._saved = (-1, ""), -1

    def _score(self) -> None:
        parts, iteration = self._parts, self._at.generation
        self._node.work_on(iteration)
        population = parts.config["population"]
        me = self._node.me
        first = first_member(me, iteration, parts)
        members = range(first, first + population)
        scorer = parts.distribution.job.scorer
        scores = scorer.scores(steps_of(parts).proposal(), iteration, members) / scorer.examples
        refuse_nan(scores, iteration)
        fitness = scores[:, 0].astype(np.float32)
        chosen = self._selection.report(Scores(iteration, first, fitness))
        report = ScoreReport(chosen, population, scores.mean(axis=0).astype(np.float32))
        self._scored = (iteration, me)
        self._node.submit(report)

    def _row(self, news: Committed) -> None:
        parts, at, record = self._parts, self._at, news.record
        config = parts.config
        last = at.generation >= config["generations"]
        looked = last or at.generation % config["evaluate"]["every"] == 0
        if looked:
            at.metrics = self._work.evaluate(at.generation)
            self._reached = self._goal.reached(at.metrics)
        now = time.perf_counter()
        seconds, self._last = max(now - self._last, 1e-9), now
        means = record.means.astype(np.float64)
        at.seconds = now - self._begun
        self._work.scored += record.members
        sent, received = (new - old for new, old in zip(news.traffic, self._traffic, strict=True))
        self._traffic = news.traffic
        metrics = at.metrics if looked and at.metrics else {}
        self._folder.row(
            {
                "generation": at.generation,
                "fitness_mean": float(means[0]),
                "fitness_best": record.best,
                "train_loss": parts.distribution.loss_of(means),
                **parts.task.measures(means, record.members, seconds),
                **{name: metrics.get(name) for name in self._work.columns()},
                "seconds": seconds,
                **{f"seconds_{phase}": spent for phase, spent in parts.clock.take().items()},
                "bytes_sent": sent,
                "bytes_received": received,
                "candidates_per_second": record.members / seconds,
                "peers": record.peers,
                "term": record.term,
                "late": record.late,
                "leads": int(news.leads),
            }
        )
        compacts = at.generation % config["cluster"]["compact_every"] == 0
        if last or compacts or at.generation % config["checkpoint"]["every"] == 0:
            self._save()
        if compacts:
            self._node.compact(at.generation)

    def _save(self) -> None:
        if self._saved != self._at.generation:
            scalars = {"seconds": self._at.seconds, "metrics": self._at.metrics}
            self._work.save(self._at.generation, scalars, self._folder)
            self._node.keep()
            self._saved = self._at.generation

    def _finish(self) -> dict[str, Any]:
        if self._replayed:
            self._tell_replay()
        if self._at.metrics is None or self._saved != self._at.generation:
            self._at.metrics = self._work.evaluate(self._at.generation)
        self._save()
        self._at.seconds = time.perf_counter() - self._begun
        self._work.rate = self._work.scored / self._at.seconds
        digest = self._work.parameters_sha256()
        return self._folder.finish(self._work, self._at.generation, self._at.seconds, self._at.metrics or {}, digest)
