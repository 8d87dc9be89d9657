"""Generation loop of ``neuro train`` and ``neuro resume``. Every rank runs it; rank 0 alone writes."""

import logging
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import CandidateError
from neuro_cli.core.metric import Metric
from neuro_cli.core.schedule import ended
from neuro_cli.fabric.base import World
from neuro_cli.logger.columns import Cost, Row, row_of
from neuro_cli.run_folder.checkpoint import Checkpoint
from neuro_cli.run_folder.record import RunRecord
from neuro_cli.runner.build import build
from neuro_cli.runner.consensus import collectively
from neuro_cli.runner.ensemble.training import build_ensemble
from neuro_cli.runner.options import Options
from neuro_cli.runner.pace import Pace
from neuro_cli.runner.population import PopulationTraining
from neuro_cli.runner.stop_signals import StopRequest
from neuro_cli.runner.stop_target import Target
from neuro_cli.runner.trainable import Trainable

log = logging.getLogger(__name__)


@dataclass
class Progression:
    """Progress of the training loop, which a checkpoint restores along with the trainable's state."""

    generation: int = 0  # generations completed
    seconds: float = 0.0  # seconds of all sessions
    metrics: dict[str, float] | None = None  # the last test evaluation's
    best: dict[str, Any] | None = None  # generation and value of the best one, with checkpoint.best

    def improves(self, headline: Metric) -> bool:
        """Return whether the loop's last test evaluation is better than all before, and remember it as the best."""
        value = (self.metrics or {}).get(headline.name, float("nan"))
        if math.isnan(value) or (self.best is not None and headline.reached(self.best["value"], value)):
            return False
        self.best = {"generation": self.generation, "value": value}
        return True


def assemble(options: Options, world: World, checkpoint: Checkpoint | None = None) -> Trainable:
    """Build and connect all parts of a population or an ensemble, restored from ``checkpoint``. Raises UserError."""
    if options.is_ensemble:
        return build_ensemble(options, world)
    return PopulationTraining(build(options, world, checkpoint.scalars if checkpoint is not None else None))


def train(options: Options, world: World, run: Path, checkpoint: Checkpoint | None) -> dict[str, Any] | None:
    """Run the loop over the remaining generations and return the summary (rank 0; None elsewhere).

    Raises UserError for bad input (on every rank) and CandidateError for a fitness that is not finite, after a
    checkpoint of the last whole generation.
    """
    at = Progression()
    with collectively(world):
        options.network.describe(world)
        work = assemble(options, world, checkpoint)
        target = Target(options.config.stop, work.metrics)
        if checkpoint is not None:
            work.restore(checkpoint)
            scalars = checkpoint.scalars
            at = Progression(checkpoint.generation, scalars["seconds"], scalars["metrics"], scalars.get("best"))
            lines = ended(options.plain.get("algo"), options.config.generations, next(reversed(options.config.pace.end), None))
            for line in lines if world.rank == 0 else ():
                log.warning("%s", line)
    record = None
    with collectively(world):
        if world.rank == 0:
            record = RunRecord(run, work.config.plain, work, options.logger, at.generation if checkpoint is not None else None)
    try:
        with StopRequest(options.config.time_limit, run if world.rank == 0 else None) as stop:
            summary = _generations(work, at, run, record, stop, target)
            world.refuse_shortcut()
            return summary
    finally:
        work.close()
        if record is not None:
            record.close()


def _generations(
    work: Trainable, at: Progression, run: Path, record: RunRecord | None, stop: StopRequest, target: Target
) -> dict[str, Any] | None:
    config, world = work.config, work.world
    total, every = config.generations, config.checkpoint.every
    begun, before, reached = time.perf_counter(), at.seconds, False
    saved = at.generation if at.generation else None
    pace = Pace(config, work.schedules, stop.begun)
    work.begin(run)
    if saved is None:
        _save(work, at, record)
        saved = 0
        if config.evaluate.start:
            values = work.evaluate(0)
            if record is not None:
                record.untrained(values)
    while at.generation < total:
        start = time.perf_counter()
        sent, received = world.traffic.sent, world.traffic.received
        try:
            row = work.step(at.generation)
        except CandidateError:
            if saved != at.generation:
                _save(work, at, record)
            raise
        at.generation += 1
        at.seconds = before + time.perf_counter() - begun
        work.keep(at.generation, at.seconds)
        seconds = time.perf_counter() - start - work.aside()
        traffic = (world.traffic.sent - sent, world.traffic.received - received)
        last = at.generation == total
        evaluated = last or at.generation % config.evaluate.every == 0
        if evaluated:
            at.metrics = work.evaluate(at.generation)
            reached = target.reached(at.metrics)
        if record is not None:
            record.row(_row(row, work, at, seconds, traffic, evaluated))
        measured = pace.measured(at.generation, world)
        if measured is not None and record is not None:
            record.paced(asdict(measured))
        stopping = world.any(stop.wanted()) or reached
        due = last or stopping or at.generation % every == 0
        improved = evaluated and config.checkpoint.best and at.improves(work.metrics[0])
        if due or improved:
            _save(work, at, record, passing=not due)
            saved = at.generation
        if stopping:
            if record is not None:
                record.stopped(at.generation, str(target) if reached else stop.reason)
            break
    if at.metrics is None or (at.generation < total and not evaluated):
        at.metrics = work.evaluate(at.generation)
    at.seconds = before + time.perf_counter() - begun
    digest = work.parameters_sha256()
    if record is None:
        return None
    work.finish()
    return record.finish(work, at.generation, at.seconds, at.metrics, digest)


def _save(work: Trainable, at: Progression, record: RunRecord | None, passing: bool = False) -> None:
    """Save a checkpoint; ``passing``: one that stays only while it is the best."""
    scalars: dict[str, Any] = {"seconds": at.seconds, "metrics": at.metrics}
    if work.config.checkpoint.best:
        scalars |= {"best": at.best, "passing": passing}
    work.save(at.generation, scalars, record)


def _row(training: Row, work: Trainable, at: Progression, seconds: float, traffic: tuple[int, int], evaluated: bool) -> Row:
    """Return the row of ``metrics.csv`` for the generation that took ``seconds``."""
    tested = work.tested(at.metrics if evaluated else None)
    cost = Cost(seconds, work.clock.take(), *traffic, work.candidates)
    efficiencies = work.efficiencies(seconds, cost.phases["communicate"])
    return row_of(at.generation, training, tested, cost, **efficiencies, elapsed_seconds=at.seconds)
