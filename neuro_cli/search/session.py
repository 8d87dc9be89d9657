"""Session of a search, the paper's model: it breeds candidates, sends them to a pool, and learns from the results."""

import logging
import secrets
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from neuro_cli.core.errors import UserError, headline
from neuro_cli.core.metric import ACCURACY, LOSS
from neuro_cli.factory.instantiate import make
from neuro_cli.pool.base import Pool, WorkResult
from neuro_cli.run_folder.checkpoint import Checkpoint
from neuro_cli.run_folder.identity import refuse_difference
from neuro_cli.runner.stop_signals import StopRequest
from neuro_cli.search.candidate import task_of
from neuro_cli.search.config import SearchConfig, identity_of
from neuro_cli.search.engine import Engine, engine_of
from neuro_cli.search.record import SearchRecord, saved_outcomes
from neuro_cli.strategy.outcome import TrainingOutcome
from neuro_cli.strategy.space import Module, text_of

log = logging.getLogger(__name__)

LINE_SECONDS = 5.0  # seconds between two lines of the display
POLL_SECONDS = 0.25  # seconds that a request to stop may wait
NUMBERS = ("fitness", "loss", "train_loss", ACCURACY.name, LOSS.name, "parameters")  # numbers in a candidate's result


def search(config: SearchConfig, run: Path, checkpoint: Checkpoint | None = None) -> dict[str, Any]:
    """Search in the folder ``run``, from the start or from a checkpoint, and return the summary. Raises UserError."""
    engine = engine_of(config)
    name, before = secrets.token_hex(6), 0.0
    if checkpoint is not None:
        refuse_difference(identity_of(config), checkpoint.scalars["identity"], "neuro search")
        name, before = checkpoint.scalars["name"], checkpoint.scalars["seconds"]
        replay(engine, saved_outcomes(checkpoint))
        engine.ask()  # repeats the call before the checkpoint: it may complete a generation, whose row then stays
    pool = _pool(config.plain["pool"], name)
    try:
        record = SearchRecord(run, config, name, None if checkpoint is None else engine.strategy.generation)
        with StopRequest(config.time_limit) as stop:
            return _Session(config, engine, pool, record, SearchDisplay(engine), before).run(stop)
    finally:
        pool.close()


def _pool(node: dict[str, Any], name: str) -> Pool:
    """Make the pool. One that outlives this process knows the tasks by the search's name, so a resumed search finds them."""
    return make({"pool": {**node, "run": name} if node.get("run") == "" else node}, "pool", Pool)


def replay(engine: Engine, outcomes: list[TrainingOutcome]) -> None:
    """Give a new ``engine`` earlier outcomes in their order, which brings it to the state of the earlier engine."""
    for outcome in outcomes:
        engine.ask()
        engine.tell(outcome)


class SearchDisplay:
    """Display of the state of ``engine``."""

    def __init__(self, engine: Engine, console: Console | None = None) -> None:
        self._engine = engine
        self._console = console or Console()
        self._begun_at, self._done_at = time.monotonic(), len(engine.archive.outcomes)
        self._told, self._told_at = "", float("-inf")

    def update(self, facts: dict[str, Any], last: bool = False) -> None:
        """Print the state if it is new, every 5 seconds and at the end; ``facts``: those of the pool."""
        line = self._line(facts)
        if line != self._told and (last or time.monotonic() - self._told_at >= LINE_SECONDS):
            self._told, self._told_at = line, time.monotonic()
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _line(self, facts: dict[str, Any]) -> str:
        engine = self._engine
        done = len(engine.archive.outcomes)
        parts = [f"generation {engine.strategy.generation}", f"{done}/{engine.trainings} candidates"]
        failed = sum(bool(outcome.error) for outcome in engine.archive.outcomes.values())
        if failed:
            parts.append(f"{failed} failed")
        best = engine.best(1)
        if best:
            parts.append(f"validation accuracy {best[0].fitness:.4f} by {text_of(best[0].module)}")
        parts.append(f"{facts.get('workers', 0)} workers")
        fresh = done - self._done_at
        if fresh and not engine.finished:
            pace = (time.monotonic() - self._begun_at) / fresh
            parts.append(f"ETA {timedelta(seconds=round(pace * (engine.trainings - done)))}")
        return "  ".join(parts)


class _Session:
    """Session of one process in a search. ``before``: seconds of earlier sessions."""

    def __init__(
        self, config: SearchConfig, engine: Engine, pool: Pool, record: SearchRecord, view: SearchDisplay, before: float
    ) -> None:
        self._config, self._engine, self._pool, self._record, self._view = config, engine, pool, record, view
        self._before, self._begun = before, time.perf_counter()
        self._row_at = self._begun
        self._modules: dict[str, Module] = {}  # modules by task

    def run(self, stop: StopRequest) -> dict[str, Any]:
        """Search until the end or until a stop is wanted. Returns the summary."""
        engine, record = self._engine, self._record
        done = len(engine.archive.outcomes)
        log.info("search %s: %d of %d candidates are trained", "continues" if done else "begins", done, engine.trainings)
        engine.ask()
        record.save(engine, self._seconds())
        self._submit(engine.under_way)
        while not engine.finished:
            for result in self._pool.results(POLL_SECONDS):
                self._take(result)
            self._view.update(self._pool.facts())
            if stop.wanted():
                break
        if not engine.finished:
            done = len(engine.archive.outcomes)
            log.warning("stopped after candidate %d (%s); continue with: neuro resume %s", done, stop.reason, record.run)
        elif engine.exhausted:
            log.warning("the search ends early: every module of up to %d layers is trained", self._config.max_layers)
        facts = self._pool.facts()
        self._view.update(facts, last=True)
        return record.finish(engine, self._seconds(), facts.get("workers"))

    def _submit(self, modules: list[Module]) -> None:
        tasks = [task_of(self._config, module, self._record.name) for module in modules]
        self._modules |= {task.id: module for task, module in zip(tasks, modules, strict=True)}
        self._pool.submit(tasks)

    def _take(self, result: WorkResult) -> None:
        """Take one result: record it, and start the next trainings."""
        engine = self._engine
        outcome = outcome_of(self._modules[result.id], result)
        engine.tell(outcome)
        fresh = engine.ask()
        now = time.perf_counter()
        # the row comes before the checkpoint: resume drops rows, but writes none again
        if self._record.generation(engine, now - self._row_at, self._seconds()):
            self._row_at = now
        self._record.weights(engine, outcome.module, result.payload)
        self._record.outcome(engine, outcome, self._seconds())
        self._refuse_hopeless()
        self._submit(fresh)

    def _refuse_hopeless(self) -> None:
        """Raise UserError when a population's worth of candidates have failed and none was trained."""
        outcomes = list(self._engine.archive.outcomes.values())
        if len(outcomes) >= self._engine.strategy.population and all(outcome.error for outcome in outcomes):
            raise UserError(f"all {len(outcomes)} candidates failed, the last by: {headline(outcomes[-1].error)}")

    def _seconds(self) -> float:
        return self._before + time.perf_counter() - self._begun


def outcome_of(module: Module, result: WorkResult) -> TrainingOutcome:
    """Convert a pool's result for a module to an outcome."""
    error = result.error.strip() or str(result.payload.get("error", ""))
    numbers = {name: result.payload[name] for name in NUMBERS if name in result.payload and not error}
    seconds = float(result.payload.get("seconds", result.seconds))
    return TrainingOutcome(module, **numbers, seconds=seconds, worker=result.worker, error=error)
