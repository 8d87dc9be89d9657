"""One job of a verb: runs it on the resolved config in its folder, and reports errors."""

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from neuro_cli.cli import ctrl_c
from neuro_cli.cli.compose import resolved
from neuro_cli.cli.error_lines import mendable
from neuro_cli.cli.sweep.jobs import headline_of
from neuro_cli.cli.sweep.launcher import JobFailedError
from neuro_cli.core.errors import UserError, no_exit, note, report
from neuro_cli.core.exit_codes import BAD_INPUT, INTERRUPTED
from neuro_cli.core.machine.current_folder import trusted_by_user
from neuro_cli.launch import lock, slurm_job
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner import stop_signals

# what a verb does with its resolved config, in the folder of its run; returns the exit code
Work = Callable[[dict[str, Any], Path], int]


def job(config: DictConfig, work: Work, trust: list[str] | None = None) -> float | None:
    """Run ``work`` on the resolved config and the output folder, and report its errors.

    Returns the headline of the run for a sweeper that optimises. A failed job of a sweep raises JobFailedError, so that the
    others run; a single job that fails ends the process. ``trust``: packages that the config may name, None where the user
    has just typed it.
    """
    from neuro_cli.factory.own_code import let_import, let_trusted

    if trust is None:
        let_import()
    else:
        let_trusted([*trust, *trusted_by_user()])
    run = Path(HydraConfig.get().runtime.output_dir)
    multirun = HydraConfig.get().mode == RunMode.MULTIRUN
    try:
        lock.take(run)
    except UserError as error:
        sys.exit(report(error))  # the files there belong to another command
    try:
        plain = resolved(config)
        with _no_empty_exit():
            code = work(plain, run)
    except Exception as error:
        if ctrl_c.interrupted():
            take_back(run)
            raise KeyboardInterrupt from error
        code = report(mendable(error))
    except KeyboardInterrupt:
        take_back(run)
        raise
    if code == BAD_INPUT and not multirun:
        take_back(run)
    lock.drop(run)
    if code and slurm_job.by_submitit():
        _fail_submitted(code)
    if multirun and stop_signals.heard() and not slurm_job.by_submitit():
        sys.exit(code or INTERRUPTED)  # a signal is for the sweep, not only for its present job
    if code and not multirun:
        sys.exit(code)
    if multirun:
        log_to(None, 0)  # the process may run another job, or wait: this job's log must be closed
    if code:
        raise JobFailedError(code)
    return headline_of(run) if multirun else None


@contextmanager
def _no_empty_exit() -> Iterator[None]:
    """Let a verb end the process with an error's code, as a job that SLURM starts again does, but not with success."""
    try:
        with no_exit():
            yield
    except RuntimeError as error:
        ended = error.__cause__
        if isinstance(ended, SystemExit) and ended.code not in (None, 0):
            raise ended from None
        raise


def _fail_submitted(code: int) -> NoReturn:
    """End a job on SLURM with ``code`` and write a result for submitit, which would wait for a missing one."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    atexit.register(leave)
    raise JobFailedError(code)


def take_back(run: Path) -> None:
    """Remove the files of a run that never began, so that the corrected command can have the folder."""
    if not lock.holds(run) or (run / "metrics.csv").exists() or (run / "checkpoints").exists():
        return
    for name in ("config", "hydra", "overrides"):
        (run / ".hydra" / f"{name}.yaml").unlink(missing_ok=True)
    (run / "log.txt").unlink(missing_ok=True)
    with suppress(OSError):  # the folder has files of the user
        (run / ".hydra").rmdir()
    lock.drop(run, remove=True)  # removes the folders that were created for it too
    with suppress(OSError):
        run.rmdir()


@contextmanager
def at_work(run: Path, new: bool) -> Iterator[None]:
    """Hold the lock of a run folder. An error is logged there, and the files of a ``new`` run that never began are removed."""
    lock.take(run)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            note(error)
        if new:
            take_back(run)
        raise
    finally:
        lock.drop(run)


def shown(run: Path) -> Path:
    """Return the folder as a user would type it: relative to the working directory when below it."""
    return run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run
