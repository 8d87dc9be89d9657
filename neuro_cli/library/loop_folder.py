"""Run folder of a loop in a user's script: the files of a command's run, which no command can continue."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.algo.base import WORST
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError, UserError, one_line
from neuro_cli.core.files import refuse_link
from neuro_cli.core.metric import FITNESS, HIGHER, LOWER, Metric
from neuro_cli.distribution.base import StepReport
from neuro_cli.fabric.base import World
from neuro_cli.factory.script_objects import plain
from neuro_cli.library.candidates import Best
from neuro_cli.library.fitness import FitnessTask
from neuro_cli.library.loop import steps_of
from neuro_cli.logger.base import Logger
from neuro_cli.logger.columns import Cost, Row, row_of, training_row
from neuro_cli.run_folder.checkpoint import Checkpoint, CheckpointStore
from neuro_cli.run_folder.config import saved_config, write_config
from neuro_cli.run_folder.identity import identity_of, refuse_difference
from neuro_cli.run_folder.log import also_logged
from neuro_cli.run_folder.progress import Progress
from neuro_cli.run_folder.record import Recorded, RunRecord, refuse_reserved
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.batch_norm import buffers_of
from neuro_cli.runner.bind import Population
from neuro_cli.runner.consensus import collectively, on_all_ranks
from neuro_cli.runner.population import compared
from neuro_cli.task.inputs import TYPES, Inputs

log = logging.getLogger(__name__)

Test = Callable[[nn.Module], float]
PACE = {"checkpoint": {"every": 50, "keep": 3, "best": False}, "evaluate": {"every": 10}}
TASK = f"{FitnessTask.__module__}.{FitnessTask.__qualname__}"


class Work(Recorded):
    """Parts of a loop in a user's script that its record needs."""

    metrics: tuple[Metric, ...] = ()

    def __init__(self, population: Population, module: nn.Module, metrics: tuple[Metric, ...], inputs: Inputs) -> None:
        self.population, self.module, self.metrics, self._inputs = population, module, metrics, inputs
        self.world, self.device, self.threads = population.world, population.device, population.threads
        self.parameters, self.candidates = population.layout.size, population.size
        self.method = population.distribution.name

    def inputs(self) -> Inputs:
        return self._inputs

    def trained(self, generation: int) -> nn.Module:
        return self.module


class LoopFolder:
    """Folder ``run`` of a loop on ``world``, which rank 0 writes. ``checkpoint``: of an earlier session, on every rank.

    ``tests``: functions of the module in evaluation mode, called on rank 0, by the names of their columns. Raises UserError.
    """

    def __init__(
        self,
        run: Path,
        config: Mapping[str, Any],
        typed: Mapping[str, Any],
        tests: Mapping[str, Test],
        logger: Logger,
        world: World,
    ) -> None:
        self._run, self._logger, self._world, self._tests = run, logger, world, dict(tests)
        self._config = plain({**config, "loop": True})
        lower = self._config["task"]["sign"] < 0
        self._metrics = tuple(map(metric_of, tests)) or (
            Metric("fitness", "fitness", ".4g", FITNESS, LOWER if lower else HIGHER, column=False),
        )
        self._cleanup = ExitStack()
        self._record: RunRecord | None = None
        self._work: Work | None = None
        checkpoint = None
        with collectively(world):
            refuse_reserved(self._metrics, "tests")
            if world.rank == 0:
                checkpoint = self._open(typed)
        self.checkpoint = on_all_ranks(world, checkpoint)
        scalars = {} if self.checkpoint is None else self.checkpoint.scalars
        self._seconds, self._values = scalars.get("seconds", 0.0), scalars.get("metrics")
        self._saved = None if self.checkpoint is None else self.checkpoint.generation

    def _open(self, typed: Mapping[str, Any]) -> Checkpoint | None:
        """Take the folder, and return its last checkpoint if it has one. Raises UserError for the folder of something else."""
        hydra = self._run / ".hydra"
        for path in (hydra, self._run / "checkpoints", self._run / "metrics.csv"):
            refuse_link(path)
        if (hydra / "config.yaml").exists() and "loop" not in saved_config(self._run):
            raise ConfigError("folder", self._run, "has a run of a command: name a new folder, or one of an Evolution")
        try:
            hydra.mkdir(parents=True, exist_ok=True)
            self._handler = self._cleanup.enter_context(also_logged(self._run))
            store = CheckpointStore(self._run, self._config["checkpoint"]["keep"])
            checkpoint = store.load() if store.generations() else None
            if checkpoint is not None:
                refuse_difference(identity_of(self._config), checkpoint.scalars["identity"], "another folder")
            elif (rows := self._run / "metrics.csv").exists() and not rows.stat().st_size:
                rows.unlink()  # a session that was killed before its first checkpoint left it
            texts = [f"{key}={value}" for key, value in typed.items() if isinstance(value, bool | int | float | str)]
            write_config(self._run, self._config, texts)
        except OSError as error:
            self._cleanup.close()
            raise UserError(f"{error.filename}: {error.strerror}") from error
        except BaseException:
            self._cleanup.close()
            raise
        return checkpoint

    def begin(self, population: Population, module: nn.Module, inputs: Tensor | None, generation: int) -> None:
        """Begin ``generation`` (from 0); the first of a session opens the files. Every rank calls this."""
        if self._work is None:
            with collectively(self._world):
                self._work = Work(population, module, self._metrics, _form_of(inputs))
                if self._world.rank == 0:
                    at = None if self._saved is None else generation
                    self._record = RunRecord(self._run, self._config, self._work, self._logger, at, Progress(1, silent=True))
        self._work.population = population
        if self._saved is None:
            self.save(generation, None)
        self._start, traffic = time.perf_counter(), self._world.traffic
        self._traffic = traffic.sent, traffic.received
        self._sizes: Row = {"sigma": population.algo.sigma_at(generation), "rate": population.algo.rate_at(generation)}

    def complete(self, report: StepReport, generation: int, best: Best | None) -> None:
        """Record a generation, the ``generation``-th (from 1); ``report`` in the user's sign. Every rank calls this."""
        assert self._work is not None
        seconds, traffic = time.perf_counter() - self._start, self._world.traffic
        self._seconds += seconds
        exchanged = traffic.sent - self._traffic[0], traffic.received - self._traffic[1]
        cost = Cost(seconds, self._work.population.clock.take(), *exchanged, self._work.population.size)
        if not self._tests:
            self._values = {"fitness": report.fitness_mean}
        elif due := generation % self._config["evaluate"]["every"] == 0:
            self._test()
        if self._record is not None:
            tested = {name: self._values[name] if due and self._values else None for name in self._tests}
            training = training_row(report.fitness_mean, report.fitness_best, report.loss, **self._sizes)
            if self._work.population.algo.non_finite == WORST:
                training["non_finite"] = report.non_finite
            self._record.row(row_of(generation, training, tested, cost, elapsed_seconds=self._seconds))
        if generation % self._config["checkpoint"]["every"] == 0:
            self.save(generation, best)

    def _test(self) -> None:
        assert self._work is not None
        with collectively(self._world):
            if self._record is None:
                return
            module = self._work.module
            modes = [(part, part.training) for part in module.modules()]
            try:
                with torch.no_grad():
                    self._values = {name: _number(name, test(module.eval())) for name, test in self._tests.items()}
            finally:
                for part, training in modes:
                    part.training = training

    def save(self, generation: int, best: Best | None) -> None:
        """Write a checkpoint of the loop. Every rank calls this."""
        assert self._work is not None
        state = compared(self._work.population, generation)
        self._saved = generation
        if self._record is None:
            return
        tensors = {f"buffers.{name}": tensor for name, tensor in buffers_of(self._work.module).items()} | state.tensors
        steps = steps_of(self._work.population.algo, generation)
        scalars: dict[str, Any] = {"seconds": self._seconds, "metrics": self._values, "steps": steps, **state.scalars}
        if best is not None:
            tensors["candidate.vector"] = best.vector
            scalars["candidate"] = [best.fitness, best.generation]
        self._record.save(generation, tensors, scalars)

    def finish(self, generation: int, best: Best | None) -> None:
        """Write the last checkpoint, the network and the summary, and give the folder up. Every rank calls this."""
        try:
            if self._work is None:
                return
            if self._saved != generation:
                self.save(generation, best)
            if self._tests and (self._values is None or generation % self._config["evaluate"]["every"]):
                self._test()
            if self._record is not None:
                digest = parameters_sha256(self._work.population.algo.solution)
                self._record.finish(self._work, generation, self._seconds, self._values or {}, digest)
        finally:
            self._cleanup.close()

    def fail(self, error: BaseException) -> None:
        """Give the folder up after an error; the last checkpoint counts."""
        if self._world.rank == 0:
            text = f"failed: {type(error).__name__}: {one_line(str(error))}"
            line = log.makeRecord(log.name, logging.INFO, __file__, 0, text, (), None)
            self._handler.handle(line)  # written to this folder alone, though other loops may be open
        self._cleanup.close()


def metric_of(name: str) -> Metric:
    """Return the metric of a column in the loop's folder; names with loss or error are better when lower. Raises ConfigError."""
    lower = any(word in name for word in ("loss", "error"))
    try:
        return Metric(name, name.replace("_", " "), better=LOWER if lower else HIGHER)
    except (TypeError, ValueError) as error:
        raise ConfigError("tests", name, f"names must be those of columns: {error}") from error


def pace_of(checkpoint: Mapping[str, Any] | None, evaluate: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the sections ``checkpoint`` and ``evaluate`` of a config. Raises ConfigError for another key."""
    pace = {}
    for section, given in (("checkpoint", checkpoint or {}), ("evaluate", evaluate or {})):
        allowed = {key: value for key, value in PACE[section].items() if key != "best"}
        for key, value in given.items():
            if key not in allowed:
                raise ConfigError(f"{section}.{key}", value, f"must be one of {', '.join(allowed)}")
            integer(f"{section}.{key}", value, 1)
        pace[section] = {**PACE[section], **given}
    return pace


def best_of(checkpoint: Checkpoint) -> Best | None:
    """Return the best candidate that a checkpoint has, None without one."""
    if "candidate" not in checkpoint.scalars:
        return None
    fitness, generation = checkpoint.scalars["candidate"]
    return Best(fitness, checkpoint.tensors["candidate.vector"], generation)


def _form_of(inputs: Tensor | None) -> Inputs:
    """Return the inputs of the network by a batch (B, ..) of a script; no shape where it gave none."""
    if inputs is None:
        return Inputs(())
    name = str(inputs.dtype).removeprefix("torch.")
    return Inputs(tuple(inputs.shape[1:]), name if name in TYPES else "float32")


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise UserError(f"tests: {name} gave {type(value).__name__}; a number is needed") from error
