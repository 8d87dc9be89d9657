"""What a peer does on its main thread: score members, report, apply what is committed, keep its run folder."""

import hashlib
import logging
import queue
import time
from typing import Any

import numpy as np
import torch

from neuro_cli.algo.base import State
from neuro_cli.algo.seed_steps import SeedSteps
from neuro_cli.core.errors import UserError
from neuro_cli.distribution.base import refuse_nan
from neuro_cli.evolve.collector import Report
from neuro_cli.evolve.news import Committed, Failed, Reset
from neuro_cli.evolve.node import Node
from neuro_cli.evolve.record import Record
from neuro_cli.evolve.view import View
from neuro_cli.runner.build import Parts
from neuro_cli.runner.evolution import Evolution
from neuro_cli.runner.record import Record as RunFolder
from neuro_cli.runner.stop import StopRequest
from neuro_cli.runner.train import Progression
from neuro_cli.selection.base import Scores, Selection

log = logging.getLogger(__name__)

WAIT = 0.1  # seconds between two looks at signals and the clock


def steps_of(parts: Parts) -> SeedSteps:
    assert isinstance(parts.algo, SeedSteps)
    return parts.algo


def apply(parts: Parts, record: Record, head: bytes) -> None:
    """Move the model by a committed record: the same bits on every peer, now or in a replay."""
    sampler, columns = parts.distribution.job.sampler, parts.layout.size
    sums = []
    for step in record.steps:
        weights = step.coefficients[None].astype(np.float64)
        members = range(step.first, step.first + len(step.coefficients))
        sums.append(sampler.combine(weights, (1,), step.iteration, members, 0, columns)[0])
    steps_of(parts).step(sums, head)
    absorb = getattr(parts.task, "absorb_side", None)  # a task may commit numbers with an iteration
    if absorb is not None and len(record.side):
        absorb(record.side)


class SeedPassing(Evolution):
    """A peer's part of a cluster's run, for its run folder. ``scored``: members of all peers, ``rate`` of them a second."""

    scored = 0
    rate = 0.0

    def facts(self) -> dict[str, Any]:
        return {"candidates_per_second": self.rate, "ledger_head": steps_of(self.parts).head.hex()}


class Worker:
    """One peer's scoring and bookkeeping. ``initial``: what a replay begins with."""

    def __init__(
        self, work: SeedPassing, node: Node, selection: Selection, folder: RunFolder, view: View | None, initial: State
    ) -> None:
        parts = work.parts
        self._work, self._parts, self._node, self._selection = work, parts, node, selection
        self._folder, self._view = folder, view
        self._initial = initial
        self._at = Progression(generation=steps_of(parts).iteration)
        self._begun = self._last = time.perf_counter()
        self._scored = -1
        self._traffic = (0, 0)
        self._replayed, self._replay_seconds = 0, 0.0
        self._saved = -1

    def run(self, stop: StopRequest) -> dict[str, Any]:
        """Work until all iterations are committed or a stop is wanted; the summary. Raises UserError."""
        total = self._parts.config["generations"]
        try:
            while self._at.generation < total and not stop.wanted():
                self._take_news(block=self._scored >= self._at.generation or not self._node.entered.is_set())
                if self._scored < self._at.generation < total and self._caught_up():
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
                        self._at.generation, stop.reason, again)  # fmt: skip
        return self._finish()

    def _caught_up(self) -> bool:
        """Whether this peer is at the cluster's iteration, as far as it knows: else there is more to apply first."""
        return self._node.entered.is_set() and self._node.news.empty() and self._node.ledger.next == self._at.generation

    def _take_news(self, block: bool) -> None:
        """Apply what has been committed meanwhile; wait for the first of it when there is nothing else to do."""
        try:
            news = self._node.news.get(timeout=WAIT) if block else self._node.news.get_nowait()
            while True:
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
        if reset.snapshot is None:
            steps_of(self._parts).restore(self._initial)
        else:
            found = reset.snapshot
            scalars = {"iteration": found.iteration, "head": found.head.hex()}
            steps_of(self._parts).restore(State({"centre": found.centre.to(self._parts.device)}, scalars))
            log.info("begins with a snapshot of iteration %d", found.iteration)
        self._at.generation = steps_of(self._parts).iteration
        self._scored, self._saved = -1, -1

    def _score(self) -> None:
        parts, iteration = self._parts, self._at.generation
        self._node.work_on(iteration)
        population = parts.config["population"]
        first = first_member(self._node.me, iteration, parts)
        members = range(first, first + population)
        scorer = parts.distribution.job.scorer
        scores = scorer.scores(steps_of(parts).proposal(), iteration, members) / scorer.examples
        refuse_nan(scores, iteration)
        fitness = scores[:, 0].astype(np.float32)
        side = getattr(parts.task, "side", None)
        report = Report(
            self._selection.report(Scores(iteration, first, fitness)),
            population,
            float(fitness.sum(dtype=np.float64)),
            np.empty(0) if side is None else np.asarray(side(), np.float64),
        )
        self._scored = iteration
        self._node.submit(report)

    def _row(self, news: Committed) -> None:
        parts, at, record = self._parts, self._at, news.record
        config = parts.config
        last = at.generation >= config["generations"]
        looked = last or at.generation % config["evaluate"]["every"] == 0
        if looked:
            at.metrics = self._work.look(at.generation)
        now = time.perf_counter()
        seconds, self._last = max(now - self._last, 1e-9), now
        at.seconds = now - self._begun
        self._work.scored += record.members
        sent, received = (new - old for new, old in zip(news.traffic, self._traffic, strict=True))
        self._traffic = news.traffic
        metrics = at.metrics if looked and at.metrics else {}
        self._folder.row(
            {
                "generation": at.generation,
                "fitness_mean": record.mean,
                "fitness_best": record.best,
                "train_loss": None,
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
            self._saved = self._at.generation

    def _finish(self) -> dict[str, Any]:
        if self._replayed:
            self._tell_replay()
        if self._at.metrics is None or self._saved != self._at.generation:
            self._at.metrics = self._work.look(self._at.generation)
        self._save()
        self._at.seconds = time.perf_counter() - self._begun
        self._work.rate = self._work.scored / self._at.seconds
        digest = self._work.parameters_sha256()
        return self._folder.finish(self._work, self._at.generation, self._at.seconds, self._at.metrics or {}, digest)


def first_member(peer: str, iteration: int, parts: Parts) -> int:
    """Where a peer's members of an iteration begin: an address out of 2**32, a function of its name and the iteration."""
    sampler = parts.distribution.job.sampler
    drawn = int.from_bytes(hashlib.sha256(f"{peer} {iteration}".encode()).digest()[:4], "little")
    # not so near to the end that the last one would not fit; where directions share noise in runs, at the start of one
    drawn = min(drawn, 2**32 - 2 * sampler.directions)
    drawn -= drawn % (sampler.run_of_directions or 1)
    return drawn * (2 if sampler.antithetic else 1)


def check_model(parts: Parts) -> None:
    """Raise UserError for what seeds cannot carry."""
    if not isinstance(parts.algo, SeedSteps):
        raise UserError("algo: neuro evolve has one of its own; what moves the model is chosen by selection=")
    if parts.config["layout"] != "shared_batch":
        raise UserError(f"layout={parts.config['layout']}: neuro evolve scores all members on one batch: shared_batch")
    if parts.device.type != "cpu":
        log.info("on %s last bits may differ from those of other devices: let all peers compute on one kind", parts.device)
    torch.set_grad_enabled(False)
