"""Sweeps of ``neuro train -m``: take the folder's lock, run the jobs anywhere, and end with one table of them."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.cli.sweep.launcher import HYDRAS_OWN, JobFailedError, Rules, SweepLauncher, wrapped
from neuro_cli.core.checks import boolean
from neuro_cli.core.errors import FAILED, INTERRUPTED, ConfigError, UserError
from neuro_cli.core.errors import report as report_error
from neuro_cli.core.verbosity import say
from neuro_cli.launch import lock
from neuro_cli.launch.slurm_sweep import LAUNCHER, DetachedError, SubmittedJobs, detached, put_aside, refusal
from neuro_cli.report.table import CSV, read_jobs, show, write
from neuro_cli.run_folder.log import log_to
from neuro_cli.run_folder.sweep_record import FILE as SWEEP_RECORD
from neuro_cli.run_folder.sweep_record import SweepRecord, read_record

MULTIRUN = "multirun.yaml"  # of Hydra, in a sweep's folder


@dataclass(frozen=True)
class Command:
    """Command line of a sweep as it was typed. ``trust``: packages that may be named, None where the user has just typed it."""

    verb: str
    arguments: list[str]
    trust: list[str] | None = None

    def same_as(self, folder: Path) -> bool:
        """Tell whether this command began the sweep in ``folder``. Raises UserError for a folder whose record is not readable."""
        there = read_record(folder)
        return there is not None and self.record("").same_command(there)

    def record(self, folder: str) -> SweepRecord:
        """Record of the sweep in ``folder``."""
        own = [text for text in self.arguments if not text.startswith("hydra.sweep.dir=")]
        return SweepRecord(self.verb, own, os.getcwd(), folder)


class Sweep(Callback):
    """Callback of Hydra that notes the sweep's folder and launcher; ``conf/train.yaml`` names it."""

    current: "Sweep | None" = None
    command: Command | None = None  # of the process

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        with suppress(OmegaConfBaseException):  # a name that only the job can resolve; it checks the folder
            self._take(Path(str(config.hydra.run.dir)))

    def _take(self, folder: Path) -> None:
        """Take the folder's lock before Hydra writes there. Hydra makes a warning of any Exception in here."""
        try:
            lock.take(folder)
        except UserError as error:
            sys.exit(report_error(error))

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        launcher = config.hydra.launcher
        self.folder = Path(str(config.hydra.sweep.dir))
        self._take(self.folder)
        self.trains = config.hydra.job.name in ("train", "search")  # a sweep of benchmarks has no runs to report
        self.launcher: SweepLauncher | None = None
        self.options = config.sweep
        comment = str(launcher.comment) if launcher._target_ == LAUNCHER else ""
        self.submitted = SubmittedJobs(self.folder, comment) if comment else None
        self.continues = self.written = False
        self.record: SweepRecord | None = None
        if config.hydra.job.name == "train" and Sweep.command is not None:
            self._record(replace(Sweep.command.record(str(config.hydra.sweep.dir)), comment=comment))
        Sweep.current = self
        if launcher._target_ == LAUNCHER:
            signal.signal(signal.SIGTERM, _interrupt)
        if self.trains:
            say(f"neuro: sweep folder {self.folder}; progress: neuro report {self.folder}")

    def _record(self, record: SweepRecord) -> None:
        """Keep the record for the first job, and put aside what SLURM left. Hydra makes a warning of any Exception here."""
        try:
            self.continues = read_record(self.folder) is not None
            if self.continues and self.submitted is not None:
                self.submitted.refuse_alive()
                put_aside(self.folder)
            self.record = record
        except UserError as error:
            lock.drop(self.folder)
            sys.exit(report_error(error))

    def rules(self) -> Rules:
        """Rules by which the launcher treats the jobs."""
        trust = Sweep.command.trust if Sweep.command is not None else None
        return Rules(self.continues, bool(self.options.fail_fast), trust, self._begins)

    def _begins(self, numbers: list[int]) -> None:
        """Write the record before the first job, with the numbers of those that SLURM gets: a later command knows them by it."""
        if self.submitted is not None:
            self.submitted.numbers += numbers
        if self.record is not None and (self.submitted is not None or not self.written):
            submitted = self.submitted.numbers if self.submitted is not None else []
            replace(self.record, submitted=list(submitted)).write()
            self.written = True

    def take_back(self) -> None:
        """Remove what was written for a sweep of which no job ever began, so that the folder is as before."""
        there = {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else set()
        if self.continues or not there <= {SWEEP_RECORD, MULTIRUN, lock.LOCK}:
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
    launcher = str(OmegaConf.select(config, "hydra.launcher._target_"))
    if detach and launcher != LAUNCHER:
        raise ConfigError("sweep.detach", True, "is for hydra/launcher=slurm: other jobs end with the command that starts them")
    if fail_fast and not launcher.startswith(HYDRAS_OWN):
        raise ConfigError("sweep.fail_fast", True, "is for jobs one after another; by hydra/launcher they run side by side")


def swept(main: Callable[[], Any]) -> int:
    """Run Hydra's ``main`` and return its exit code; a sweep ends with the table of its jobs."""
    Sweep.current = None
    failure: BaseException | None = None
    with _signals_put_back(), _launchers_wrapped():
        try:
            main()
        except BaseException as error:
            failure = error
        sweep = Sweep.current
        if sweep is None:
            return _or_raise(failure)
        if isinstance(failure, DetachedError):
            print(f"neuro: submitted; neuro report {sweep.folder} follows, neuro resume {sweep.folder} goes on", flush=True)
            return 0
        if failure is not None:
            sweep.take_back()
        if isinstance(failure, UserError | HydraException):
            raise failure  # of the sweep, not of a job
        code = _conclude(sweep, failure)
    if _tell(sweep):
        return code
    refused = refusal(failure) if failure is not None and sweep.submitted is not None else None
    return _or_raise(refused or failure) or code  # no job left a folder: each may have failed before it had one


@contextmanager
def _launchers_wrapped() -> Iterator[None]:
    """Put a launcher of ours around that of a sweep, and leave SLURM's jobs alone where ``sweep.detach`` asks for it."""
    plain = Plugins.instantiate_launcher

    def rules() -> Rules | None:
        return Sweep.current.rules() if Sweep.current is not None else None

    with ExitStack() as left:

        def made(launcher: SweepLauncher) -> None:
            assert Sweep.current is not None
            Sweep.current.launcher = launcher
            if Sweep.current.options.detach:
                left.enter_context(detached())

        Plugins.instantiate_launcher = wrapped(rules, made)  # type: ignore[method-assign]
        try:
            yield
        finally:
            Plugins.instantiate_launcher = plain  # type: ignore[method-assign]


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM to a command that waits for jobs elsewhere as Ctrl-C, so that they are cancelled."""
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def _signals_put_back() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _or_raise(failure: BaseException | None) -> int:
    if failure is not None:
        raise failure
    return 0


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
    failed = sweep.launcher.failures if sweep.launcher is not None else []
    first = failed[0] if failed else failure
    return first.code if isinstance(first, JobFailedError) else FAILED if first is not None else 0


def _tell(sweep: Sweep) -> bool:
    """Print and write the table; False when no run ever began."""
    log_to(None, 0)  # a job that ran in this process has ended: its log is free
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
