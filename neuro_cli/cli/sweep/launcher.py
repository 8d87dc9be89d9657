"""Launches the jobs of a sweep by a launcher of Hydra: announces each, skips finished ones, continues after failures.

Hydra's launchers end at the first failure and repeat finished jobs.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, filter_overrides
from omegaconf import DictConfig, open_dict

from neuro_cli.cli.compose import plain_keys
from neuro_cli.cli.sweep.jobs import Left, clear, headline_of, left_in, refuse_other_job
from neuro_cli.core.errors import UserError, printable

BASIC = "basic"  # option of hydra/launcher: Hydra's own, one job after another
NUMBERED = "${hydra.job.num}"
Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
PATIENCE = 30.0  # seconds that the ranks of a killed command have to end


class JobFailedError(Exception):
    """Failure of a sweep's job, whose message is already printed. ``code``: exit code of its command."""

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


@dataclass(frozen=True)
class Rules:
    """Rules of a sweep for its jobs. ``trust``: packages that a resumed sweep may name, None for one that was typed.

    ``launch``: hands the overrides of jobs, the first of them with a number, to the chosen launcher.
    ``begins``: gets the numbers of jobs before they go there.
    """

    continues: bool
    fail_fast: bool
    trust: list[str] | None
    launch: Launch
    begins: Callable[[list[int]], None]


class SweepLauncher:
    """Launcher of a sweep's jobs, with the errors of failed ones in ``failures``.

    ``swept``: keys by which jobs differ, for their lines. ``total``: number of jobs, None where it is open.
    """

    def __init__(self, loader: ConfigLoader, config: DictConfig, rules: Rules, swept: Collection[str], total: int | None) -> None:
        self._loader, self._config, self._rules, self._swept, self._total = loader, config, rules, swept, total
        self._in_turn = option(config, "hydra/launcher") == BASIC
        self.failures: list[Exception] = []

    def launch(self, job_overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        jobs = [self._job(number, list(overrides)) for number, overrides in enumerate(job_overrides, first)]
        return self._one_by_one(jobs) if self._in_turn else self._side_by_side(jobs)

    def _one_by_one(self, jobs: list[Job]) -> list[JobReturn]:
        returns = []
        for job in jobs:
            print(self._line(job), flush=True)
            if job.left is Left.FINISHED:
                returns.append(_finished(job))
                continue
            self._rules.begins([job.number])
            returns += self._launched([job.overrides], job.number)
            if self.failures and self._rules.fail_fast:
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
            return self._launched([job.overrides for job in jobs], jobs[0].number)
        placed = [[*job.overrides, f"hydra.sweep.subdir='{job.subdir}'"] for job in left]
        done = dict(zip((job.number for job in left), self._launched(placed, left[0].number), strict=True))
        return [done[job.number] if job.number in done else _finished(job) for job in jobs]

    def _launched(self, jobs: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        returns = list(self._rules.launch(jobs, first))
        for job in returns:  # 0.4 MB each, kept until the sweep ends
            job.cfg = job.hydra_cfg = None
        self.failures += [_error_of(job) for job in returns if job.status == JobStatus.FAILED]
        return returns

    def _line(self, job: Job) -> str:
        swept = " ".join(text for text in filter_overrides(job.overrides) if text.partition("=")[0] in self._swept)
        total = f"/{self._total}" if self._total is not None else ""
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
        config = self._loader.load_sweep_config(self._config, overrides)
        with open_dict(config):
            config.hydra.job.id, config.hydra.job.num = str(number), number
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
    """Return the option of ``group`` in the composed config of a sweep's job."""
    return config.hydra.runtime.choices.get(group)


def _error_of(job: JobReturn) -> Exception:
    """Return the error of a failed job, which Hydra prints and raises when the result of a failed job is read."""
    job.status = JobStatus.COMPLETED
    error: Exception = job.return_value
    job.status = JobStatus.FAILED
    return error


def _finished(job: Job) -> JobReturn:
    """Return the result of a job that an earlier command has finished."""
    done = JobReturn(overrides=job.overrides, working_dir=str(job.run), status=JobStatus.COMPLETED)
    done.return_value = headline_of(job.run)
    return done
