"""Output of commands that do not run: ``--help``, ``--cfg`` and ``--hydra-help``."""

from argparse import Namespace
from collections.abc import Mapping

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, flag_override

from neuro_cli.cli.compose import composed
from neuro_cli.cli.options.groups import groups_help
from neuro_cli.cli.options.help import annotated
from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.cli.overrides.check import Checked
from neuro_cli.cli.overrides.flags import flag_parser


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
