"""Sweeps of ``neuro train -m``: take the folder's lock, run the jobs anywhere, and end with one table of them."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.core.errors import FAILED, INTERRUPTED, UserError
from neuro_cli.core.errors import report as report_error
from neuro_cli.core.verbosity import say
from neuro_cli.launch import lock
from neuro_cli.launch.slurm_sweep import BROKER_LAUNCHER, LAUNCHER, SubmittedJobs, refusal
from neuro_cli.report.table import CSV, read_jobs, show, write
from neuro_cli.run_folder.log import log_to


class Sweep(Callback):
    """Callback of Hydra that notes the sweep's folder and launcher; ``conf/train.yaml`` names it."""

    current: "Sweep | None" = None

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
        self.submitted = SubmittedJobs(self.folder, str(launcher.comment)) if launcher._target_ == LAUNCHER else None
        Sweep.current = self
        if launcher._target_ in (LAUNCHER, BROKER_LAUNCHER):
            signal.signal(signal.SIGTERM, _interrupt)
        if self.trains:
            say(f"neuro: sweep in {self.folder}; neuro report {self.folder} shows how it stands")


def swept(main: Callable[[], Any]) -> int:
    """Run Hydra's ``main`` and return its exit code; a sweep ends with the table of its jobs."""
    Sweep.current = None
    failure: BaseException | None = None
    with _signals_put_back():
        try:
            main()
        except BaseException as error:
            failure = error
        sweep = Sweep.current
        if sweep is None:
            return _or_raise(failure)
        code = _conclude(sweep, failure)
    if _tell(sweep):
        return code
    refused = refusal(failure) if failure is not None and sweep.submitted is not None else None
    return _or_raise(refused or failure)


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
    return FAILED if failure is not None else 0


def _tell(sweep: Sweep) -> bool:
    """Print and write the table; False when no run ever began."""
    log_to(None, 0)  # a job that ran in this process has ended: its log is free
    jobs = sweep.submitted
    try:
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
