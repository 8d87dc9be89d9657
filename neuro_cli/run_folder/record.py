"""What a run leaves behind in its folder, written by rank 0 alone: metrics, checkpoints, log, plot, summary."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from rich.console import Console
from torch import Tensor

from neuro_cli.core.threads import Threads
from neuro_cli.fabric.base import World
from neuro_cli.fabric.mpi import launched
from neuro_cli.logger.base import Logger
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.run_folder.checkpoint import CheckpointStore, Shard
from neuro_cli.run_folder.identity import identity_of
from neuro_cli.run_folder.progress import Progress
from neuro_cli.run_folder.summary import git_revision, peak_memory_bytes, versions, write_summary

log = logging.getLogger(__name__)


class Recorded(Protocol):
    """What a record says of the training that it records."""

    world: World
    device: torch.device
    threads: Threads
    parameters: int
    candidates: int
    method: str

    def facts(self) -> dict[str, Any]: ...


class RunRecord:
    """The run folder of a run that starts (``resumed_at`` None) or goes on after generation ``resumed_at``.

    ``config``: the resolved one. ``logger``: the chosen one, beside which ``metrics.csv`` is always written. ``progress``:
    the display, by default one line.
    """

    def __init__(
        self,
        run: Path,
        config: dict[str, Any],
        work: Recorded,
        logger: Logger,
        resumed_at: int | None,
        progress: Progress | None = None,
    ) -> None:
        self.run = run
        self._identity = identity_of(config)
        self._store = CheckpointStore(run, config["checkpoint"]["keep"])
        self._loggers: list[Logger] = [logger] if isinstance(logger, CsvLogger) else [CsvLogger(), logger]
        for each in self._loggers:
            each.start(run, config, resumed_at)
        # Open MPI gives its ranks a terminal of their own, wherever their output goes: no bar under a launcher
        console = Console(force_terminal=False) if launched() else None
        self._progress = progress or Progress(config["generations"], resumed_at or 0, console)
        self._progress.__enter__()
        log.info(
            "%d parameters, population %d, %d ranks, %d threads a rank, %s, MPI: %s",
            work.parameters,
            work.candidates,
            work.world.size,
            work.threads.count,
            work.device,
            work.world.library,
        )

    def row(self, row: dict[str, Any]) -> None:
        for logger in self._loggers:
            logger.log(row)
        self._progress.update(row)
        if row["test_accuracy"] is not None:
            log.info("generation %d: test accuracy %.4f", row["generation"], row["test_accuracy"])
        if row.get("mean_return") is not None:
            log.info("generation %d: mean return %.2f", row["generation"], row["mean_return"])

    def save(self, generation: int, tensors: dict[str, Tensor], scalars: dict[str, Any], shards: Sequence[Shard] = ()) -> None:
        path = self._store.save(generation, tensors, {**scalars, "identity": self._identity}, shards)
        log.info("checkpoint of generation %d: %s", generation, path.name)

    def stopped(self, generation: int, reason: str) -> None:
        log.warning("stopped after generation %d (%s); go on with: neuro resume %s", generation, reason or "signal", self.run)

    def finish(self, work: Recorded, generation: int, seconds: float, metrics: dict[str, float], digest: str) -> dict[str, Any]:
        """Write plot and summary; return the summary. ``digest``: of the parameters."""
        from neuro_cli.run_folder.plot import plot_run  # here: matplotlib is for the rank that draws, and only at its end

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
            "versions": versions(work.world.library),
            "git_revision": git_revision(),
            **work.facts(),
        }
        write_summary(self.run / "summary.json", summary)
        plot_run(self.run / "metrics.csv", self.run / "curves.png")
        for logger in self._loggers:
            logger.finish(summary)
        return summary

    def close(self) -> None:
        self._progress.__exit__(None, None, None)
