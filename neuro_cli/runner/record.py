"""What a run leaves behind in its folder, written by rank 0 alone: metrics, checkpoints, log, plot, summary."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from torch import Tensor

from neuro_cli.fabric.mpi import launched
from neuro_cli.logger.base import Logger
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.runner.build import make_logger
from neuro_cli.runner.checkpoint import CheckpointStore, Shard
from neuro_cli.runner.identity import identity_of
from neuro_cli.runner.progress import Progress
from neuro_cli.runner.summary import git_revision, peak_memory_bytes, versions, write_summary

if TYPE_CHECKING:
    from neuro_cli.runner.work import Work

log = logging.getLogger(__name__)


class Record:
    """The run folder of a run that starts (``resumed_at`` None) or goes on after generation ``resumed_at``.

    ``progress``: who shows how it stands, by default one line.
    """

    def __init__(self, run: Path, work: "Work", resumed_at: int | None, progress: Progress | None = None) -> None:
        config = work.config
        self.run = run
        self._identity = identity_of(config)
        self._store = CheckpointStore(run, config["checkpoint"]["keep"])
        chosen = make_logger(config)
        self._loggers: list[Logger] = [chosen] if isinstance(chosen, CsvLogger) else [CsvLogger(), chosen]
        for logger in self._loggers:
            logger.start(run, config, resumed_at)
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

    def finish(self, work: "Work", generation: int, seconds: float, metrics: dict[str, float], digest: str) -> dict[str, Any]:
        """Write plot and summary; return the summary. ``digest``: of the parameters."""
        from neuro_cli.runner.plot import plot_run  # here: matplotlib is for the rank that draws, and only at its end

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
