"""Launches the jobs of a sweep by the chosen launcher: announces each, skips finished ones, continues after failures.

Hydra's launchers end at the first failure and repeat finished jobs. Sweepers of any kind hand their jobs to a launcher, so all of
them pass here, by the plugin ``hydra_plugins/neuro_sweep.py``.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn, JobStatus, filter_overrides
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from neuro_cli.cli.compose import plain_keys
from neuro_cli.cli.sweep.jobs import Left, clear, headline_of, left_in, refuse_other_job
from neuro_cli.core.errors import UserError, printable

BASIC = "basic"  # option of hydra/launcher and hydra/sweeper: Hydra's own, one job after another
NUMBERED = "${hydra.job.num}"
PATIENCE = 30.0  # seconds that the ranks of a killed command have to end


class JobFailedError(Exception):
    """Failure of a job of a sweep; its message is printed already. ``code``: that of its command."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"exit code {self.code}"


@dataclass(frozen=True)
class Job:
    """Job ``number`` of a sweep. ``run``: its folder; ``left``: its state from an earlier command."""

    number: int
    overrides: list[str]
    run: Path
    subdir: str
    left: Left


@dataclass
class Rules:
    """Rules of a sweep for its jobs. ``trust``: packages that a resumed sweep may name, None for one that was typed.

    ``launch``: hands the overrides of jobs, the first of them with a number, to the chosen launcher.
    ``begins``: gets the numbers of jobs before they go there.
    """

    continues: bool
    fail_fast: bool
    trust: list[str] | None
    launch: Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
    begins: Callable[[list[int]], None]


class SweepLauncher:
    """Launcher of a sweep's jobs, with the errors of failed ones in ``failures``. It continues with Hydra's own sweeper."""

    def __init__(self, context: HydraContext, config: DictConfig, rules: Rules) -> None:
        self._context, self._config, self._rules = context, config, rules
        self.in_turn = option(config, "hydra/launcher") == BASIC
        self._basic = option(config, "hydra/sweeper") == BASIC
        texts = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
        swept = OverridesParser.create(config_loader=context.config_loader).parse_overrides(
            [*texts, *config.hydra.overrides.task]
        )
        keys = {override.key_or_group for override in swept if override.is_sweep_override()}
        self._fixed = {str(override.input_line) for override in swept if override.key_or_group not in keys}
        self.total = _count(swept) if self._basic else None
        self.failures: list[Exception] = []

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        jobs = [self._job(initial_job_idx + place, list(overrides)) for place, overrides in enumerate(job_overrides)]
        run = self._one_by_one if self.in_turn else self._side_by_side
        returns = run(jobs)
        for each in returns:
            if each.status == JobStatus.FAILED:
                self._failed(each)
        return returns

    def _one_by_one(self, jobs: list[Job]) -> list[JobReturn]:
        returns = []
        for job in jobs:
            print(self._line(job), flush=True)
            if job.left is Left.FINISHED:
                returns.append(_finished(job))
                continue
            self._rules.begins([job.number])
            returns += self._rules.launch([job.overrides], job.number)
            if returns[-1].status == JobStatus.FAILED and self._rules.fail_fast:
                self._failed(returns[-1])
                raise self.failures[-1]
        return returns

    def _side_by_side(self, jobs: list[Job]) -> list[JobReturn]:
        """Run the unfinished jobs together. Each keeps its folder, whatever number the launcher gives it."""
        left = [job for job in jobs if job.left is not Left.FINISHED]
        for job in jobs:
            if job.left is not Left.NOTHING:
                print(self._line(job), flush=True)
        if not left:
            return [_finished(job) for job in jobs]
        print(f"neuro: {len(left)} jobs by {str(self._config.hydra.launcher._target_).rpartition('.')[2]}", flush=True)
        self._rules.begins([job.number for job in left])
        for job in left:
            if job.left is Left.FAILED:
                clear(job.run)
        if left == jobs:
            return list(self._rules.launch([job.overrides for job in jobs], jobs[0].number))
        placed = [[*job.overrides, f"hydra.sweep.subdir='{job.subdir}'"] for job in left]
        done = dict(zip((job.number for job in left), self._rules.launch(placed, left[0].number), strict=True))
        return [done[job.number] if job.number in done else _finished(job) for job in jobs]

    def _failed(self, job: JobReturn) -> None:
        """Note the failure. Hydra's own sweeper would end with a page at the first one that it sees: it gets None."""
        job.status = JobStatus.COMPLETED  # a failed job would print and raise its error when it is read
        error = job.return_value
        if error not in self.failures:
            self.failures.append(error)
        if self._basic:
            job.return_value = None
        else:
            job.status = JobStatus.FAILED

    def _line(self, job: Job) -> str:
        swept = " ".join(text for text in filter_overrides(job.overrides) if text not in self._fixed)
        total = f"/{self.total}" if self.total is not None else ""
        left = f": {job.left.value}" if job.left.value else ""
        return printable(f"[{job.number + 1}{total}] {swept}{left}")

    def _job(self, number: int, overrides: list[str]) -> Job:
        """Return a job with its state from an earlier command. Raises UserError if that was another job, or still runs."""
        if not self._rules.continues:
            return Job(number, overrides, Path(), "", Left.NOTHING)
        subdir = self.subdir(number, overrides)
        run = Path(str(self._config.hydra.sweep.dir), subdir)
        refuse_other_job(run, filter_overrides(overrides))
        deadline = time.monotonic() + PATIENCE
        while (left := left_in(run)) is Left.RUNNING:
            if time.monotonic() > deadline:
                raise UserError(f"{run}: another command works on this run; wait for it, or end it")
            time.sleep(0.2)
        return Job(number, overrides, run, subdir, left)

    def subdir(self, number: int, overrides: list[str]) -> str:
        """Return the folder of a job below the sweep's. The classes that the job names are checked if a file gave the command."""
        if plain_keys(self._config.hydra.sweep)["subdir"] == NUMBERED and self._rules.trust is None:
            return str(number)
        config = self._context.config_loader.load_sweep_config(self._config, overrides)
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        before = HydraConfig.instance().cfg
        HydraConfig.instance().set_config(config)  # resolves ${hydra:...}
        try:
            subdir = str(config.hydra.sweep.subdir)
            if self._rules.trust is not None:
                from neuro_cli.factory.trust import refuse_untrusted  # here: it imports torch, which a refusal does not wait for

                refuse_untrusted(plain_keys(config, "hydra", resolve=True), self._rules.trust)
        finally:
            HydraConfig.instance().cfg = before
        return subdir


def option(config: DictConfig, group: str) -> str | None:
    """Return the option of ``group`` in a composed config."""
    chosen: str | None = config.hydra.runtime.choices.get(group)
    return chosen


def _finished(job: Job) -> JobReturn:
    """Return the result of a job that an earlier command has finished."""
    done = JobReturn(overrides=job.overrides, working_dir=str(job.run), status=JobStatus.COMPLETED)
    done.return_value = headline_of(job.run)
    return done


def _count(overrides: Sequence[Override]) -> int:
    """Return the number of jobs of Hydra's own sweeper: the product of the numbers of values that each key has last."""
    lengths = {override.key_or_group: 1 for override in overrides}
    for override in overrides:
        if override.is_sweep_override() and override.is_discrete_sweep():
            lengths[override.key_or_group] = sum(1 for _ in override.sweep_string_iterator())
    return math.prod(lengths.values())
