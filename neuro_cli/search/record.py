"""Run folder of a search: candidates, metrics, checkpoints, log, plot, summary, and the best architectures."""

import csv
import io
import json
import logging
from pathlib import Path
from statistics import fmean, median
from typing import Any

from neuro_cli.core.errors import UserError, headline, only_warned
from neuro_cli.core.files import save_file
from neuro_cli.core.metric import ACCURACY, LOSS
from neuro_cli.factory.instantiate import make
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.several import with_csv
from neuro_cli.run_folder.checkpoint import Checkpoint, CheckpointStore
from neuro_cli.run_folder.record import curves_wanted
from neuro_cli.run_folder.short_names import remember
from neuro_cli.run_folder.summary import git_revision, peak_memory_bytes, versions, write_summary
from neuro_cli.search.candidate import network_of
from neuro_cli.search.config import ALL, BEST, SearchConfig, identity_of
from neuro_cli.search.engine import Engine
from neuro_cli.search.weights import WeightsFolder, unpacked
from neuro_cli.strategy.outcome import TrainingOutcome
from neuro_cli.strategy.space import Module, text_of

log = logging.getLogger(__name__)

CANDIDATES = "candidates.csv"
COLUMNS = (
    "candidate",
    "generation",
    "origin",
    "module",
    "layers",
    "parameters",
    "validation_accuracy",
    "validation_loss",
    "train_loss",
    ACCURACY.name,
    "seconds",
    "worker",
    "error",
)


class SearchRecord:
    """Run folder of a search that begins (``resumed_at`` None), or continues after ``resumed_at`` complete generations."""

    def __init__(self, run: Path, search: SearchConfig, name: str, resumed_at: int | None) -> None:
        self.run, self._search, self.name = run, search, name
        self._store = CheckpointStore(run, search.checkpoint.keep)
        self._store.hold()
        self._weights = WeightsFolder(run)
        self._logger = with_csv(make(search.plain, "logger", Logger))
        self._logger.start(run, search.plain, resumed_at)
        remember(run)
        self._generation = resumed_at or 0
        self._counted = 0  # candidates done at the last row

    def outcome(self, engine: Engine, outcome: TrainingOutcome, seconds: float) -> None:
        """Record a finished candidate: a line in the log, a row in ``candidates.csv``, a checkpoint."""
        number = engine.archive.started[outcome.module]
        reported = outcome.error or f"validation accuracy {outcome.fitness:.4f}"
        log.info("candidate %d (%s) on %s: %s", number, text_of(outcome.module), outcome.worker, reported)
        if outcome.error:
            log.warning("candidate %d (%s) failed: %s", number, text_of(outcome.module), headline(outcome.error))
        self.save(engine, seconds)
        self.candidates(engine, tested=False)

    def weights(self, engine: Engine, module: Module, result: dict[str, Any]) -> None:
        """Write the weights of a candidate where wanted, before the checkpoint that counts it as done."""
        keep = self._search.keep_weights
        number = engine.archive.started[module]
        wanted = keep == ALL or (keep == BEST and number in self._best(engine))
        if wanted and "weights" in result:
            try:
                self._weights.write(number, unpacked(result["weights"], network_of(self._search, module)))
            except UserError as error:
                log.warning("candidate %d (%s): its weights are not kept: %s", number, text_of(module), error)
        elif wanted and "weights_error" in result:
            log.warning("candidate %d (%s): its weights are not kept: %.200s", number, text_of(module), result["weights_error"])

    def _best(self, engine: Engine) -> list[int]:
        """Return the numbers of the best candidates."""
        return [engine.archive.started[outcome.module] for outcome in engine.best(self._search.best)]

    def save(self, engine: Engine, seconds: float) -> None:
        """Save a checkpoint: the outcomes in their order determine the search. Then remove weights that it does not want."""
        outcomes = [outcome.as_json() for outcome in engine.archive.outcomes.values()]
        scalars = {"name": self.name, "seconds": seconds, "identity": identity_of(self._search), "outcomes": outcomes}
        self._store.save(len(outcomes), {}, scalars)
        if self._search.keep_weights == BEST:
            self._weights.keep(self._best(engine))

    def candidates(self, engine: Engine, tested: bool) -> None:
        """Write ``candidates.csv``; ``tested``: with test accuracies, which nobody should see before the end."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for module, number in engine.archive.started.items():
            outcome = engine.archive.outcomes.get(module)
            if outcome is not None:
                own = (number, engine.generations[module], engine.origins[module], text_of(module), len(module))
                scores = (outcome.fitness, outcome.loss, outcome.train_loss, outcome.test_accuracy if tested else None)
                writer.writerow([*own, outcome.parameters, *scores, outcome.seconds, outcome.worker, outcome.error])
        save_file(self.run / CANDIDATES, text.getvalue())

    def generation(self, engine: Engine, seconds: float, elapsed: float) -> Row | None:
        """Write a row of ``metrics.csv`` where a generation has been completed: its ``seconds``, and the population after it.

        ``elapsed``: seconds of the search up to now.
        """
        if engine.strategy.generation <= self._generation:
            return None
        self._generation = engine.strategy.generation
        members, done = engine.strategy.members, len(engine.archive.outcomes)
        fitnesses = [member.fitness for member in members if member.fitness is not None]
        losses = [member.train_loss for member in members if member.train_loss is not None]
        row: Row = {
            "generation": self._generation,
            "fitness_mean": fmean(fitnesses) if fitnesses else None,
            "fitness_best": max(fitnesses, default=None),
            "train_loss": fmean(losses) if losses else None,
            "seconds": seconds,
            "candidates_per_second": (done - self._counted) / seconds if seconds else None,
            "trainings": done,
            "failures": sum(bool(outcome.error) for outcome in engine.archive.outcomes.values()),
            "layers_mean": fmean(len(member.module) for member in members) if members else None,
            "elapsed_seconds": elapsed,
        }
        self._counted = done
        self._logger.log(row)
        return row

    def finish(self, engine: Engine, seconds: float, workers: int | None) -> dict[str, Any]:
        """Write the best architectures, the plot and the summary of a search's record; return the summary."""
        self._store.refuse_other()
        best = engine.best(self._search.best)
        self.candidates(engine, tested=True)
        self._export(engine, best)
        summary = self._summary(engine, best, seconds, workers)
        write_summary(self.run / "summary.json", summary)
        with only_warned("curves.png"):
            if curves_wanted():
                self._plot()
        self._logger.finish(summary)
        return summary

    def _plot(self) -> None:
        from neuro_cli.run_folder.candidates import panel_of_searches, trained  # late, since matplotlib takes time
        from neuro_cli.run_folder.plot import draw

        rows = trained(self.run)
        if rows:
            draw([panel_of_searches([("", "", rows)])], self.run / "curves.png")
        else:
            log.warning("%s has no candidate that was trained: nothing to plot", self.run / CANDIDATES)

    def _summary(self, engine: Engine, best: list[TrainingOutcome], seconds: float, workers: int | None) -> dict[str, Any]:
        done = len(engine.archive.outcomes)
        first = list(engine.archive.started)[: engine.strategy.population]
        outcomes = [engine.archive.outcomes[module] for module in first if module in engine.archive.outcomes]
        winner = best[0] if best else None
        return {
            ACCURACY.name: winner and winner.test_accuracy,
            LOSS.name: winner and winner.test_loss,
            "generations": engine.strategy.generation,
            "wall_seconds": seconds,
            "candidates_per_second": done / seconds if seconds else 0.0,
            "peak_memory_bytes": peak_memory_bytes(),
            "parameters": winner and winner.parameters,
            "device": self._search.training.device,
            "versions": versions(),
            "git_revision": git_revision(),
            "complete": engine.finished,
            "exhausted": engine.exhausted,
            "trainings": done,
            "failures": sum(bool(outcome.error) for outcome in engine.archive.outcomes.values()),
            "workers": workers,
            "module": winner and list(winner.module),
            "validation_accuracy": winner and winner.fitness,
            "first_generation": {
                "validation_accuracy_median": _median([outcome.fitness for outcome in outcomes]),
                f"{ACCURACY.name}_median": _median([outcome.test_accuracy for outcome in outcomes]),
            },
        }

    def _export(self, engine: Engine, best: list[TrainingOutcome]) -> None:
        """Write ``best/best_1.yaml``, ``best_2.yaml``, ...: options of the group `model`, the fittest first."""
        folder = self.run / "best"
        folder.mkdir(exist_ok=True)
        epochs = self._search.training.epochs
        for place, outcome in enumerate(best, 1):
            model = {**self._search.plain["model"], "module": list(outcome.module)}
            comment = f"# {outcome.parameters:,} parameters, validation accuracy {outcome.fitness:.4f} after {epochs} epochs"
            weights = self._weights.path(engine.archive.started[outcome.module])
            comment += f"; weights: {weights.relative_to(self.run)}" if weights.exists() else ""
            lines = [f"{key}: {json.dumps(value)}" for key, value in model.items()]  # JSON is YAML
            save_file(folder / f"best_{place}.yaml", "\n".join([comment, *lines]) + "\n")


def saved_outcomes(checkpoint: Checkpoint) -> list[TrainingOutcome]:
    """Read the outcomes from a checkpoint of a search, in the order of their arrival."""
    return [TrainingOutcome.from_json(fields) for fields in checkpoint.scalars["outcomes"]]


def _median(values: list[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
