"""Output of commands that do not run: ``--help``, ``--cfg``, ``--info`` and ``--hydra-help``."""

from argparse import Namespace

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import Container, DictConfig, OmegaConf, flag_override

from neuro_cli.cli.compose import composed
from neuro_cli.cli.options.groups import groups_help
from neuro_cli.cli.options.help import annotated
from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.cli.overrides.check import Checked
from neuro_cli.cli.overrides.flags import flag_parser
from neuro_cli.core.errors import UserError


def show(verb: str, command: Checked) -> int:
    """Print what the flags of ``command`` ask for and return the exit code."""
    flags = command.flags
    if flags.help and command.composed is not None:
        print(_help(verb, command.tree, command.composed))
        return 0
    with command.tree.loaded() as loader:
        if flags.cfg:
            print(_config(composed(command, loader), flags), end="")
        else:
            _print_by_hydra(flags, command)
    return 0


def _print_by_hydra(flags: Namespace, command: Checked) -> None:
    """Print what only Hydra knows: where the config comes from, its own flags and keys, help for a config tree of the user's."""
    hydra, name = GlobalHydra.instance().hydra, command.tree.name
    assert hydra is not None
    flags.overrides = command.overrides
    if flags.info:
        hydra.show_info(flags.info, config_name=name, overrides=command.overrides)
    elif flags.help:
        hydra.app_help(config_name=name, args_parser=flag_parser(), args=flags)
    else:
        hydra.hydra_help(config_name=name, args_parser=flag_parser(), args=flags)


def _config(config: DictConfig, flags: Namespace) -> str:
    """Return the part of the config that ``--cfg`` and ``--package`` choose, as YAML. Raises UserError for one that is absent."""
    HydraConfig.instance().set_config(config)  # resolves ${hydra:...}
    shown = {"job": lambda key: key != "hydra", "hydra": lambda key: key == "hydra", "all": lambda key: True}[flags.cfg]
    OmegaConf.set_readonly(config.hydra, None)
    part = OmegaConf.masked_copy(config, [str(key) for key in config if shown(key)])
    if flags.cfg == "hydra":
        with flag_override(part.hydra, ["struct", "readonly"], [False, False]):
            del part.hydra.help, part.hydra.hydra_help
    if flags.package not in (None, "_global_"):
        part = OmegaConf.select(part, flags.package)
    if part is None:
        raise UserError(f"--package {flags.package}: the config has no such key")
    if not isinstance(part, Container):
        return f"{part}\n"
    if flags.resolve:
        OmegaConf.resolve(part)
    head = f"# @package {flags.package}\n" if flags.package else ""
    return head + OmegaConf.to_yaml(part)


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
