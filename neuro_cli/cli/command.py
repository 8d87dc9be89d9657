"""Verbs with a config that Hydra composes: checks a command, then shows it, runs it or sweeps over it."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import configure_log, run_job
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.cli.compose import composed, context_of, plain_keys
from neuro_cli.cli.hydra_job import Work, job
from neuro_cli.cli.options.groups import groups_help
from neuro_cli.cli.options.help import annotated
from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.cli.overrides.check import Checked, checked
from neuro_cli.cli.overrides.flags import flag_parser
from neuro_cli.cli.sweep.sweep import check_sweep, sweep
from neuro_cli.core.errors import UserError
from neuro_cli.fabric.start import launched
from neuro_cli.launch import lock
from neuro_cli.run_folder.sweep_record import SweepRecord
from neuro_cli.runner.config import check_early

EARLY = ("train", "evolve")  # verbs whose root keys are checked before torch is imported
STARTED = {"scale": "worlds", "search": "workers", "evolve": "peers", "reproduce": "worlds"}  # processes that verbs start


def hydra_verb(name: str, work: Work, check: Callable[[DictConfig], None] | None = None) -> Callable[..., int]:
    """Return the verb ``name``, which does ``work`` with its resolved config in the folder of the run.

    The verb's ``trust``: packages that the jobs of a sweep may name, None where the user has typed them.
    ``check`` gets the composed config (of a sweep's first job) before anything is written, and raises UserError.
    """

    def verb(arguments: list[str], trust: list[str] | None = None) -> int:
        typed = SweepRecord.typed(name, arguments)
        command = checked(name, arguments, typed.began)
        if command.shows:
            return show(name, command)
        check_sweep(command.composed)
        if name in EARLY:
            check_early(plain_keys(command.composed, "hydra"))
        if check is not None:
            check(command.composed)
        if name in STARTED and launched():
            raise UserError(f"neuro {name} starts its {STARTED[name]} itself: run it without a launcher")
        task = partial(job, work=work, trust=trust)
        with command.tree.loaded() as loader:
            return sweep(command, typed, trust, task, loader) if command.sweeps else _run(command, task, loader)

    return verb


def _run(command: Checked, task: TaskFunction, loader: ConfigLoader) -> int:
    """Run the one job of ``command``, which ends the process where it fails."""
    config = composed(command, loader, RunMode.RUN)
    configure_log(config.hydra.hydra_logging, config.hydra.verbose)
    with suppress(OmegaConfBaseException):  # the job alone can resolve the folder's name, and takes it then
        lock.take(Path(str(config.hydra.run.dir)))
    done = run_job(task, config, job_dir_key="hydra.run.dir", job_subdir_key=None, hydra_context=context_of(loader))
    assert done.return_value is None
    return 0


def show(verb: str, command: Checked) -> int:
    """Print what the flags of ``command`` ask for and return the exit code."""
    flags, tree = command.flags, command.tree
    if flags.hydra_help:
        print(_hydra_help(tree.groups))
    elif flags.help:
        print(_help(verb, tree, command.composed))
    else:
        with tree.loaded() as loader:
            print(_config(composed(command, loader), flags), end="")
    return 0


def _hydra_help(groups: Mapping[str, list[str]]) -> str:
    own = [f"{name}: {', '.join(options)}" for name, options in groups.items() if name.startswith("hydra/")]
    return "\n".join([flag_parser().format_help(), "== Groups of Hydra (its keys: --cfg hydra) ==", *own])


def _config(config: DictConfig, flags: Namespace) -> str:
    """Return the part of the config that ``--cfg`` chooses, as YAML."""
    HydraConfig.instance().set_config(config)  # resolves ${hydra:...}
    shown = {"job": lambda key: key != "hydra", "hydra": lambda key: key == "hydra", "all": lambda key: True}[flags.cfg]
    OmegaConf.set_readonly(config.hydra, None)
    part = OmegaConf.masked_copy(config, [str(key) for key in config if shown(key)])
    if flags.cfg == "hydra":
        with flag_override(part.hydra, ["struct", "readonly"], [False, False]):
            del part.hydra.help, part.hydra.hydra_help
    if flags.resolve:
        OmegaConf.resolve(part)
    return OmegaConf.to_yaml(part)


def _help(verb: str, tree: ConfigTree, config: DictConfig) -> str:
    HydraConfig.instance().set_config(config)  # resolves ${hydra:...}
    return "\n".join([
        config.hydra.help.header,
        "== Groups and their options ==",
        groups_help(verb, tree.groups),
        "",
        "== Config (override with key=value) ==",
        annotated(verb, config),
        "",
        config.hydra.help.footer,
    ])  # fmt: skip
