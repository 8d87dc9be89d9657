"""Verbs that Hydra runs: calls them, runs a job on the resolved config, and reports errors."""

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import configure_log
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, Node, OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.cli import interrupts
from neuro_cli.cli.completion import script_for
from neuro_cli.cli.options.groups import groups_help, with_members
from neuro_cli.cli.options.help import annotated
from neuro_cli.cli.overrides.check import Checked, checked
from neuro_cli.cli.sweep.callback import Command, Sweep, check_sweep, swept
from neuro_cli.cli.sweep.jobs import headline_of
from neuro_cli.cli.sweep.launcher import JobFailedError
from neuro_cli.core.errors import BAD_INPUT, INTERRUPTED, UserError, no_exit, note, report
from neuro_cli.core.files import config_folder
from neuro_cli.launch import lock, slurm
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner import stop
from neuro_cli.runner.root_keys import check_early

EARLY = ("train", "evolve")  # verbs with root keys of numbers that are checked before torch is imported
CONFIG_FOLDER = str(config_folder())


def hydra_verb(main: Callable[[], Any], check: Callable[[DictConfig], None] | None = None) -> Callable[..., int]:
    """Make a verb of a function of ``hydra.main``, with the config and the name of the function.

    Its ``trust``: packages that the jobs of a sweep may name, None where the user has typed them.
    ``check`` gets the composed config (of a sweep's first job) before anything is written, and raises UserError.
    """

    def verb(arguments: list[str], trust: list[str] | None = None) -> int:
        script = script_for(arguments)
        if script is not None:
            print(script, end="")
            return 0
        name = main.__name__.removesuffix("_main")
        Sweep.command = Command(name, arguments, trust)
        command = checked(name, arguments, Sweep.command.same_as)
        if command.composed is not None and not command.shows:
            check_sweep(command.composed)
            if name in EARLY:
                check_early(plain_keys(command.composed))
            if check is not None:
                check(command.composed)
        sys.argv = [f"neuro {name}", *command.arguments]
        GlobalHydra.instance().clear()
        # for hydra.help in conf/command.yaml; not by hydra.job.name, which a user may change
        OmegaConf.register_new_resolver("groups_help", lambda: groups_help(name), replace=True)
        OmegaConf.register_new_resolver("config_help", lambda: _config_help(name, command), replace=True)
        os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, instead of printing in its own way
        with _composed_once(command):
            return swept(main)

    return verb


def plain_keys(composed: DictConfig) -> dict[str, Any]:
    """Values of a composed config as typed, without Hydra's own; interpolations as they stand."""
    keys = [str(key) for key in composed if key != "hydra"]
    found = OmegaConf.to_container(OmegaConf.masked_copy(composed, keys), resolve=False)
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


def _config_help(verb: str, command: Checked) -> str:
    """Config with comments for Hydra's template, which fills in ``$CONFIG`` itself; without them for a user's config tree."""
    return "$CONFIG" if command.composed is None else annotated(verb, command.composed).replace("$", "$$")


@contextmanager
def _composed_once(command: Checked) -> Iterator[None]:
    """Let Hydra take its mode, and the whole config where it is known, from what is composed already, not compose it again."""
    if command.composed is None:
        yield
        return
    mode, reads, composes = OmegaConf.select(command.composed, "hydra.mode"), Hydra.get_mode, Hydra.compose_config
    Hydra.get_mode = lambda *_, **__: mode  # type: ignore[method-assign]
    if command.whole and not command.shows and mode is None:
        Hydra.compose_config = _ready(command, composes)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode, Hydra.compose_config = reads, composes  # type: ignore[method-assign]


def _ready(command: Checked, composes: Callable[..., DictConfig]) -> Callable[..., DictConfig]:
    """Form of ``Hydra.compose_config`` that gives the config of ``command`` for its one run, by ``composes`` for all else."""
    config = command.composed
    assert config is not None

    def compose_config(hydra: Hydra, **more: Any) -> DictConfig:
        added = ["hydra.mode=RUN"]  # Hydra's own, where no mode is chosen
        if more["overrides"] != [*command.arguments, *added] or more["run_mode"] is not RunMode.RUN:
            return composes(hydra, **more)
        with read_write(config.hydra):
            config.hydra.mode = RunMode.RUN
            config.hydra.overrides.hydra.extend(added)
        OmegaConf.set_readonly(config.hydra, False)  # as Hydra leaves it
        if more.get("with_log_configuration"):
            configure_log(config.hydra.hydra_logging, config.hydra.verbose)
        return config

    return compose_config


def job(config: DictConfig, work: Callable[[dict[str, Any], Path], int]) -> float | None:
    """Run ``work`` on the resolved config and the output folder. Errors are reported here, since Hydra would print a page.

    Returns the headline of the run for a sweeper that optimises. A job that fails raises JobFailedError in a sweep, so that
    the others run; elsewhere it ends the process.
    """
    from neuro_cli.factory.own_code import let_import

    if Sweep.command is None or Sweep.command.trust is None:
        let_import()  # code that is instantiated from here on was named by the user
    run = Path(HydraConfig.get().runtime.output_dir)
    multirun = HydraConfig.get().mode == RunMode.MULTIRUN
    try:
        lock.take(run)
    except UserError as error:
        sys.exit(report(error))  # the files there belong to another command
    try:
        resolved = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        assert isinstance(resolved, dict)
        with _no_empty_exit():
            whole = with_members({str(key): value for key, value in resolved.items() if key != "sweep"})
            code = work(whole, run)
    except Exception as error:
        if interrupts.interrupted():
            take_back(run)
            raise KeyboardInterrupt from error
        code = report(mendable(error))
    except KeyboardInterrupt:
        take_back(run)
        raise
    if code == BAD_INPUT and not multirun:
        take_back(run)
    lock.drop(run)
    if code and slurm.by_submitit():
        _fail_submitted(code)
    if multirun and stop.heard() and not slurm.by_submitit():
        sys.exit(code or INTERRUPTED)  # a signal is for the sweep, not only for its present job
    if code and not multirun:
        sys.exit(code)
    if multirun:
        log_to(None, 0)  # the process may serve another job, or wait: this one's log is free
    if code:
        raise JobFailedError(code)
    return headline_of(run) if multirun else None


@contextmanager
def _no_empty_exit() -> Iterator[None]:
    """Let a verb end the process with an error's code (as a job that SLURM starts again does), but not with that of success."""
    try:
        with no_exit():
            yield
    except RuntimeError as error:
        ended = error.__cause__
        if isinstance(ended, SystemExit) and ended.code not in (None, 0):
            raise ended from None
        raise


def save(config: dict[str, Any], run: Path) -> None:
    """Write the resolved config of a run: a resume with more generations must not stretch the schedules that refer to them."""
    OmegaConf.save(OmegaConf.create(config), run / ".hydra" / "config.yaml")


def _fail_submitted(code: int) -> NoReturn:
    """End a job on SLURM with ``code`` and a result that submitit finds at once; it would wait for a missing one."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    atexit.register(leave)
    raise JobFailedError(code)


def take_back(run: Path) -> None:
    """Remove what was written for a run that never began, so that the mended command can have the folder."""
    if not lock.holds(run) or (run / "metrics.csv").exists() or (run / "checkpoints").exists():
        return
    for name in ("config", "hydra", "overrides"):
        (run / ".hydra" / f"{name}.yaml").unlink(missing_ok=True)
    (run / "log.txt").unlink(missing_ok=True)
    with suppress(OSError):  # not empty: the user's own files lie there
        (run / ".hydra").rmdir()
    lock.drop(run, remove=True)  # and the folders that were made for it
    with suppress(OSError):
        run.rmdir()


@contextmanager
def at_work(run: Path, new: bool) -> Iterator[None]:
    """Hold the lock of a run folder; an error is logged there, and what a ``new`` run wrote goes if it never began."""
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


def mendable(error: Exception) -> Exception:
    """Convert errors of Hydra and the file system about the user's input to a UserError; other errors stay as they are."""
    text = ""
    if isinstance(error, HydraException | OmegaConfBaseException):
        text = _with_key(error, str(error).partition("\n")[0])
    elif isinstance(error, OSError):
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    if not text:
        return error
    mended = UserError(text)
    mended.__cause__ = error
    return mended


@contextmanager
def mending() -> Iterator[None]:
    """Raise errors of the block as :func:`mendable` converts them."""
    try:
        yield
    except Exception as error:
        mended = mendable(error)
        if mended is error:
            raise
        raise mended from error


def _with_key(error: Exception, text: str) -> str:
    """Text of an error of the config, with its key."""
    key = getattr(error, "full_key", None)
    if not key or str(key) in text:
        return text
    parent = getattr(error, "parent_node", None)
    last = str(key).rpartition(".")[2]
    node = parent._get_node(last, validate_access=False) if isinstance(parent, DictConfig) else None
    value = node._value() if isinstance(node, Node) else ""
    return f"{key}={value}: {text}" if value else f"{key}: {text}"


def shown(run: Path) -> Path:
    """Folder as a user would type it: relative to the working directory when below it."""
    return run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run
