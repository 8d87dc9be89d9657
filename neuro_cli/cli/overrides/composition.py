"""Composes the config of a command: all of it at once, or the chosen options and then the values."""

import copy
import re

from hydra import compose
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.cli.options.groups import groups_of, sections_of
from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.cli.overrides.grammar import choices_of, sweeps, without_plus
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import no_option
from neuro_cli.core.messages.install import install

IN_EXTRA = {"joblib": "sweep", "ray": "ray"}  # launchers of packages that an extra of neuro installs


def compose_whole(
    tree: ConfigTree, first: list[str], overrides: list[Override], available: dict[str, list[str]]
) -> tuple[list[str], DictConfig | None]:
    """Return plain overrides as Hydra takes them, and the config of ``first`` and them; None where keys must be checked.

    A plain override chooses an option of a group or sets an existing key. Hydra refuses other keys; composing again
    without the values shows what is wrong with them.
    """
    texts = [str(o.input_line) if o.key_or_group in tree.own_groups else without_plus(o) for o in overrides]
    if not all(_is_plain(override, available) for override in overrides):
        return texts, None
    single = {o.key_or_group for o in overrides if "." not in o.key_or_group} - available.keys()
    if single and not single.isdisjoint(sections_of(tree.name)):
        return texts, None  # a value in place of keys
    choices_of(overrides, available)  # refuses what is no option
    try:
        with tree.loaded():
            return texts, compose(tree.name, [*first, *texts], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException):
        return texts, None


def _is_plain(override: Override, available: dict[str, list[str]]) -> bool:
    key = override.key_or_group
    if not key or sweeps(override) or override.is_delete() or "@" in str(override.input_line).partition("=")[0]:
        return False
    if key in available:
        return True
    return not (override.is_add() or override.is_force_add() or key.startswith("hydra/") or key == "hydra.mode")


def compose_choices(tree: ConfigTree, overrides: list[str]) -> DictConfig:
    """Return the config of the ``overrides``, which choose options. Raises UserError."""
    try:
        with tree.loaded():
            return compose(tree.name, overrides, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        if found := re.match(r"Could not override '(\w+)'\.\s+No match in the defaults list", str(error)):
            value = next(text.partition("=")[2] for text in overrides if text.startswith(f"{found[1]}="))
            raise ConfigError(found[1], value, f"neuro {tree.name} has no such group; it has {_named(tree.name)}") from error
        if found := re.match(r"In 'hydra/config': Could not find 'hydra/(launcher|sweeper)/(\w+)'", str(error)):
            raise _no_plugin(found[1], found[2], str(error)) from error
        if str(error).startswith("Cannot find primary config"):
            raise UserError(f"--config-name {tree.name}: neither neuro's configs nor yours have a {tree.name}.yaml") from error
        # Hydra's search path takes many lines and does not help a user of neuro
        raise UserError(" ".join(str(error).partition("Config search path")[0].split())) from error


def with_values(base: DictConfig, overrides: list[Override]) -> DictConfig:
    """Return a copy of ``base`` with the values of ``overrides``, which saves composing it again. Raises UserError."""
    full = copy.deepcopy(base)
    with open_dict(full):
        for override in overrides:
            key = override.key_or_group.partition("@")[0]
            if override.is_delete():
                continue
            try:
                OmegaConf.update(full, key, override.value(), force_add=True)
            except RecursionError as error:
                raise UserError(f"{override.input_line}: it is nested too deeply") from error
    return full


def _no_plugin(kind: str, name: str, said: str) -> ConfigError:
    """Return the error for an absent launcher or sweeper, with the extra that installs it if one does."""
    if kind == "launcher" and name in IN_EXTRA:
        return ConfigError("hydra/launcher", name, f"is not installed: {install(IN_EXTRA[name])}")
    valid = said.partition("Available options in")[2].partition("Config search path")[0].split()[1:]
    return no_option(f"hydra/{kind}", name, valid)


def _named(verb: str) -> str:
    """Return the groups of a verb as a message lists them."""
    return ", ".join(sorted(group for group in groups_of(verb) if "@" not in group))
