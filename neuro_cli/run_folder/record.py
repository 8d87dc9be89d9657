"""Files of a run in its folder, which rank 0 alone writes: metrics, checkpoints, log, network, plot, summary."""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.core.errors import UserError, only_warned
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.metric import Metric
from neuro_cli.fabric.base import World
from neuro_cli.fabric.start import launched
from neuro_cli.logger.base import Logger
from neuro_cli.logger.columns import LATER_COLUMNS, METRIC_COLUMNS, RANK_COLUMNS, Row
from neuro_cli.logger.several import with_csv
from neuro_cli.run_folder.checkpoint import CheckpointStore, Shard
from neuro_cli.run_folder.config import class_names, rewrite
from neuro_cli.run_folder.declaration import declare
from neuro_cli.run_folder.identity import identity_of
from neuro_cli.run_folder.model_file import MODEL, facts_of, write_model
from neuro_cli.run_folder.progress import Progress
from neuro_cli.run_folder.short_names import remember
from neuro_cli.run_folder.summary import SUMMARY_KEYS, git_revision, peak_memory_bytes, versions, write_summary
from neuro_cli.task.inputs import Inputs

log = logging.getLogger(__name__)

# names that no metric of a task may have
RESERVED = {*METRIC_COLUMNS, *RANK_COLUMNS, *LATER_COLUMNS, *SUMMARY_KEYS}


def curves_wanted() -> bool:
    """Return whether ``curves.png`` is drawn: matplotlib costs most of a second, and NEURO_CURVES=0 spares a short job that."""
    return os.environ.get("NEURO_CURVES") != "0"


class Recorded(ABC):
    """Training as its record sees it. ``parameters``: trained on all ranks; ``candidates``: networks run in a generation."""

    world: World
    device: torch.device
    threads: Threads
    parameters: int
    candidates: int
    method: str  # name of the distribution method

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics of test evaluations, the headline first."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages of task and model, whose versions ``summary.json`` records."""
        return ()

    @abstractmethod
    def inputs(self) -> Inputs:
        """Return the inputs of the recorded run's network."""

    @abstractmethod
    def trained(self, generation: int) -> nn.Module:
        """Return the network after ``generation`` generations, which have a checkpoint. It works without the run. On rank 0."""

    def facts(self) -> dict[str, Any]:
        """Return further entries of the recorded run's ``summary.json``."""
        return {}


class RunRecord:
    """Run folder of a run that starts (``resumed_at`` None) or continues after generation ``resumed_at``.

    ``config``: resolved. ``logger``: the chosen one; ``metrics.csv`` is written in any case. ``progress``: the display, by
    default one line.
    """

    def __init__(
        self,
        run: Path,
        config: Mapping[str, Any],
        work: Recorded,
        logger: Logger,
        resumed_at: int | None,
        progress: Progress | None = None,
    ) -> None:
        self.run = run
        refuse_reserved(work.metrics)
        self._metrics, self._config = work.metrics, config
        self._headline = work.metrics[0]
        self._identity = identity_of(config)
        self._store = CheckpointStore(run, config["checkpoint"]["keep"])
        self._store.hold()
        self._logger = with_csv(logger)
        self._logger.evaluated = tuple(metric.name for metric in work.metrics if metric.column)
        self._logger.start(run, config, resumed_at)
        declare(run, work.metrics, work.inputs())
        remember(run)
        # no bar under a launcher: Open MPI gives each rank a terminal, wherever the output goes
        self._progress = progress or Progress(
            config["generations"], resumed_at or 0, plain=launched(), limit=config.get("time_limit")
        )
        self._progress.say(f"neuro: {header(config, work)}")
        self._progress.say(f"neuro: folder {run}")
        self._progress.__enter__()
        log.info(
            "%d parameters, population %d, %d ranks, %d threads per rank, %s, MPI: %s",
            work.parameters,
            work.candidates,
            work.world.size,
            work.threads.count,
            work.device,
            work.world.library,
        )

    def row(self, row: Row) -> None:
        self._logger.log(row)
        value = row.get(self._headline.name)
        tested = "" if value is None else f"{self._headline.label} {self._headline.text(value)}"
        self._progress.update(row, tested)
        if tested:
            log.info("generation %d: %s", row["generation"], tested)

    def untrained(self, values: Mapping[str, float]) -> None:
        """Say the metrics of a test evaluation before the first generation."""
        known = [metric for metric in self._metrics if metric.name in values]
        text = ", ".join(f"{metric.label} {metric.text(values[metric.name])}" for metric in known)
        self._progress.say(f"neuro: before training: {text}")
        log.info("before training: %s", text)

    def save(self, generation: int, tensors: dict[str, Tensor], scalars: dict[str, Any], shards: Sequence[Shard] = ()) -> None:
        scalars = {**scalars, "identity": self._identity}
        path = self._store.save(generation, tensors, scalars, shards, passing=scalars.pop("passing", False))
        log.info("checkpoint of generation %d: %s", generation, path.name)

    def refuse_other(self) -> None:
        """Raise UserError where the run folder was moved or removed."""
        self._store.refuse_other()

    def paced(self, pace: dict[str, Any]) -> None:
        """Write the pace to the folder's config, before a generation depends on it."""
        rewrite(self.run, {"pace": {name: list(value) if isinstance(value, tuple) else value for name, value in pace.items()}})
        if pace["end"]:
            level = logging.WARNING if len(pace["end"]) == 1 else logging.INFO
            line = "the time limit ends the schedules about generation %d; pace.measure=false keeps their length"
            log.log(level, line, pace["end"][-1])

    def stopped(self, generation: int, reason: str) -> None:
        log.warning("stopped after generation %d (%s); continue with: neuro resume %s", generation, reason or "signal", self.run)

    def finish(self, work: Recorded, generation: int, seconds: float, metrics: dict[str, float], digest: str) -> dict[str, Any]:
        """Write network, plot and summary; return the summary. ``digest``: of the parameters."""
        self.refuse_other()
        summary = {
            **metrics,
            "generations": generation,
            "wall_seconds": seconds,
            "candidates_per_second": work.candidates * generation / seconds if seconds else 0.0,
            "peak_memory_bytes": peak_memory_bytes(),
            "parameters": work.parameters,
            "parameters_sha256": digest,
            "ranks": work.world.size,
            "distribution": work.method,
            "threads": work.threads.count,
            "device": str(work.device),
            "versions": versions(work.world.library, work.packages),
            "git_revision": git_revision(),
            **work.facts(),
        }
        facts = facts_of(self._config, generation, work.inputs(), self._headline, metrics, work.packages)
        write_model(self.run / MODEL, work.trained(generation), {**facts, "parameters_sha256": digest})
        write_summary(self.run / "summary.json", summary)
        with only_warned("curves.png"):
            self._plot()
        self._logger.finish(summary)
        return summary

    def _plot(self) -> None:
        if curves_wanted():
            from neuro_cli.run_folder.plot import (
                plot_run,
                title_of,
            )  # imported here: only the rank that draws needs matplotlib, at its end

            plot_run(self.run / "metrics.csv", self.run / "curves.png", self._headline, title_of(self._config))

    def close(self) -> None:
        self._progress.__exit__(None, None, None)


def header(config: Mapping[str, Any], work: Recorded) -> str:
    """Return one line about the recorded run: network, task, method, ranks and device."""
    names = class_names(config)
    ranks, threads = work.world.size, work.threads.count
    parts = (
        f"{names.get('model')} on {names.get('task')}",
        f"{work.parameters:,} parameters",
        f"{names.get('algo')}, {work.method}, population {work.candidates:,}",
        f"{ranks} rank{'s' * (ranks > 1)} of {threads} thread{'s' * (threads > 1)}, {work.device}",
    )
    return "; ".join(parts)


def refuse_reserved(metrics: Sequence[Metric], key: str = "task.metrics") -> None:
    """Raise UserError where a metric shares its name with another one or with a figure of every run."""
    if not metrics:
        raise UserError(f"{key}: it declares none; at least one is needed, the headline first")
    names = [metric.name for metric in metrics]
    for place, name in enumerate(names):
        if name in RESERVED or name in names[:place]:
            taken = "every run has a column or a figure of that name" if name in RESERVED else "it is declared twice"
            raise UserError(f"{key}: {name}: {taken}")
