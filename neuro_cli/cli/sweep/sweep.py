"""Sweeps of ``neuro VERB -m``: take the folder's lock, run the jobs anywhere, and end with one table of them."""

import itertools
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, configure_log
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf

from neuro_cli.cli.compose import composed, context_of, plain_keys
from neuro_cli.cli.overrides.check import Checked
from neuro_cli.cli.sweep.launcher import BASIC, JobFailedError, Launch, Rules, SweepLauncher, option
from neuro_cli.core.checks import boolean
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.errors import report as report_error
from neuro_cli.core.exit_codes import FAILED, INTERRUPTED
from neuro_cli.core.messages.install import absent, install
from neuro_cli.core.messages.verbosity import say
from neuro_cli.launch import lock
from neuro_cli.launch.slurm_submit import LAUNCHER, DetachedError, SubmittedJobs, put_aside, refusal, submit
from neuro_cli.report.table import CSV, read_jobs, show, write
from neuro_cli.run_folder.log import log_to
from neuro_cli.run_folder.sweep_record import FILE as SWEEP_RECORD
from neuro_cli.run_folder.sweep_record import SweepRecord, read_record

GRID, OPTUNA = "basic", "optuna"  # options of hydra/sweeper: Hydra's own, and neuro's
MULTIRUN = "multirun.yaml"  # the sweep's config, which marks its folder


class Sweep:
    """Sweep of ``config`` in its folder, whose lock it takes. ``trust``: packages that its jobs may name, None: it was typed.

    Raises UserError for jobs of an earlier command that still run.
    """

    def __init__(self, config: DictConfig, typed: SweepRecord, trust: list[str] | None) -> None:
        self.folder, self.trust = Path(str(config.hydra.sweep.dir)), trust
        lock.take(self.folder)
        self.trains = config.hydra.job.name in ("train", "search")  # a sweep of benchmarks has no runs to report
        self.failures: list[Exception] = []
        on_slurm = config.hydra.launcher._target_ == LAUNCHER
        comment = str(config.hydra.launcher.comment) if on_slurm else ""
        self.submitted = SubmittedJobs(self.folder, comment) if on_slurm else None
        self.continues = self.written = False
        self.record: SweepRecord | None = None
        if config.hydra.job.name == "train":
            self._continue(replace(typed, folder=str(config.hydra.sweep.dir), comment=comment))
        if on_slurm:
            signal.signal(signal.SIGTERM, _interrupt)
        if self.trains:
            say(f"neuro: sweep folder {self.folder}; progress: neuro report {self.folder}")

    def _continue(self, record: SweepRecord) -> None:
        """Keep the record for the first job, and put aside earlier logs of SLURM."""
        self.continues = read_record(self.folder) is not None
        if self.continues and self.submitted is not None:
            self.submitted.refuse_alive()
            put_aside(self.folder)
        self.record = record

    def run(self, config: DictConfig, task: TaskFunction, loader: ConfigLoader) -> None:
        """Run the jobs of the sweep that ``config`` asks for."""
        inner = Plugins.instance().instantiate_launcher(context_of(loader), task, config)
        rules = Rules(
            self.continues, bool(config.sweep.fail_fast), self.trust, _launch_by(inner, config.sweep.detach), self._begins
        )
        overrides = typed_overrides(config, loader)
        swept = [key for key, override in overrides.items() if override.is_sweep_override()]
        jobs = grid_of(overrides) if option(config, "hydra/sweeper") == GRID else None
        launcher = SweepLauncher(loader, config, rules, swept, None if jobs is None else len(jobs))
        self.failures = launcher.failures
        self.folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(config, self.folder / MULTIRUN)
        if jobs is None:
            from neuro_cli.cli.sweep.trials import run_trials

            run_trials(plain_keys(config.hydra.sweeper), overrides, launcher, self.folder)
        else:
            batch = config.hydra.sweeper.max_batch_size or len(jobs)
            for first in range(0, len(jobs), batch):
                launcher.launch(jobs[first : first + batch], first)

    def _begins(self, numbers: list[int]) -> None:
        """Write the record before the first job, with the numbers that identify the jobs on SLURM for a later command."""
        if self.submitted is not None:
            self.submitted.numbers += numbers
        if self.record is not None and (self.submitted is not None or not self.written):
            submitted = self.submitted.numbers if self.submitted is not None else []
            replace(self.record, submitted=list(submitted)).write()
            self.written = True

    def take_back(self) -> None:
        """Remove the files of a sweep if none of its jobs ever began, so that the folder is as before."""
        files = {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else set()
        if self.continues or not files <= {SWEEP_RECORD, MULTIRUN, lock.LOCK}:
            return
        for name in (SWEEP_RECORD, MULTIRUN):
            (self.folder / name).unlink(missing_ok=True)
        lock.drop(self.folder, remove=True)
        with suppress(OSError):
            self.folder.rmdir()


def check_sweep(config: DictConfig) -> None:
    """Check the keys of a sweep in the config of its first job. Raises ConfigError."""
    fail_fast = boolean("sweep.fail_fast", OmegaConf.select(config, "sweep.fail_fast"))
    detach = boolean("sweep.detach", OmegaConf.select(config, "sweep.detach"))
    if detach and OmegaConf.select(config, "hydra.launcher._target_") != LAUNCHER:
        raise ConfigError("sweep.detach", True, "needs hydra/launcher=slurm: other jobs end with the command that starts them")
    sweeper = option(config, "hydra/sweeper")
    if sweeper not in (GRID, OPTUNA):
        raise ConfigError("hydra/sweeper", sweeper, f"must be {GRID} or {OPTUNA}")
    if sweeper == OPTUNA and absent("optuna"):
        raise ConfigError("hydra/sweeper", OPTUNA, f"is not installed: {install('sweep')}")
    if fail_fast and option(config, "hydra/launcher") != BASIC:
        raise ConfigError("sweep.fail_fast", True, "needs jobs one after another; this hydra/launcher runs them in parallel")


def sweep(command: Checked, typed: SweepRecord, trust: list[str] | None, task: TaskFunction, loader: ConfigLoader) -> int:
    """Run the jobs of a sweep and return the exit code. It ends with the table of its jobs."""
    failure: BaseException | None = None
    with _signals_put_back():
        config = composed(command, loader, RunMode.MULTIRUN)
        configure_log(config.hydra.hydra_logging, config.hydra.verbose)
        this = Sweep(config, typed, trust)
        try:
            this.run(config, task, loader)
        except BaseException as error:
            failure = error
        if isinstance(failure, DetachedError):
            print(f"neuro: submitted; neuro report {this.folder} shows progress, neuro resume {this.folder} resumes", flush=True)
            return 0
        if failure is not None:
            this.take_back()
        if isinstance(failure, UserError | HydraException):
            raise failure  # the sweep failed, not a job
        code = _conclude(this, failure)
    if _report(this):
        return code
    if failure is not None:  # no job has a folder: each may have failed before it had one
        raise (refusal(failure) if this.submitted is not None else None) or failure
    return code


def _launch_by(inner: Launcher, detach: bool) -> Launch:
    """Return the function that hands jobs to the ``inner`` launcher; to ``detach`` them ends the command."""

    def launch(jobs: Sequence[Sequence[str]], first: int) -> Sequence[JobReturn]:
        if detach:
            submit(inner, jobs, first, Singleton.get_state())
            raise DetachedError
        return inner.launch(jobs, initial_job_idx=first)

    return launch


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM as Ctrl-C, so that the jobs that the command waits for are cancelled."""
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def _signals_put_back() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _conclude(sweep: Sweep, failure: BaseException | None) -> int:
    """Wait for all jobs, or cancel them. Returns the exit code."""
    jobs = sweep.submitted
    interrupted = isinstance(failure, KeyboardInterrupt)
    if jobs is not None:
        try:
            if interrupted:
                print("neuro: interrupted: the jobs of this sweep are cancelled", file=sys.stderr, flush=True)
                jobs.cancel()
            else:
                jobs.wait()
        except KeyboardInterrupt:
            interrupted = True
            jobs.cancel()
    if interrupted:
        return INTERRUPTED
    if isinstance(failure, SystemExit):
        return failure.code if isinstance(failure.code, int) else FAILED
    first = sweep.failures[0] if sweep.failures else failure
    return first.code if isinstance(first, JobFailedError) else FAILED if first is not None else 0


def _report(sweep: Sweep) -> bool:
    """Print and write the table; False when no run ever began."""
    log_to(None, 0)  # a job of this process has ended: its log can be closed
    jobs = sweep.submitted
    try:
        if not sweep.folder.is_dir():
            return False
        if not sweep.trains:
            return True
        rows = read_jobs(sweep.folder, jobs.states() if jobs is not None else None)
        if not rows:
            return False
        show(rows)
        write(sweep.folder / CSV, rows)
    except UserError as error:
        report_error(error)
    finally:
        if jobs is not None:
            jobs.tidy()
    return True


def typed_overrides(config: DictConfig, loader: ConfigLoader) -> dict[str, Override]:
    """Return the overrides of a sweep by key, those of ``hydra.sweeper.params`` first; the last one of a key counts."""
    texts = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create(config_loader=loader).parse_overrides([*texts, *config.hydra.overrides.task])
    return {str(override.get_key_element()): override for override in parsed}


def grid_of(overrides: dict[str, Override]) -> list[list[str]]:
    """Return the overrides of each job of the grid. Raises UserError for values that cannot be listed."""
    return [list(job) for job in itertools.product(*(_texts(key, override) for key, override in overrides.items()))]


def _texts(key: str, override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    if not override.is_discrete_sweep():
        raise UserError(f"{override.input_line}: has no list of values; hydra/sweeper=optuna draws from an interval")
    return [f"{key}={value}" for value in override.sweep_string_iterator()]
