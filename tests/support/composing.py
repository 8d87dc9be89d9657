"""One composition for all commands with the same options: Hydra takes 0.1 to 0.8 s for each, and files of tests have hundreds."""

import os
import pickle
from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.cli.options.groups import TABLES, groups, options_in
from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.cli.overrides import check
from neuro_cli.cli.overrides.grammar import choices_of, override_of, without_plus
from neuro_cli.core.errors import UserError
from support import read_once  # noqa: F401 (Hydra reads by it)

if TYPE_CHECKING:
    import pytest

Kept = dict[tuple[ConfigTree, tuple[str, ...]], bytes]

_choices: Kept = {}


def _users_files(tree: ConfigTree) -> bool:
    """Return whether options of the user's own are among those of ``tree``."""
    return bool(tree.more) or not ConfigStore.instance().repo.keys().isdisjoint({*groups(), TABLES})


def kept_choices(tree: ConfigTree, choices: list[str], compose=check.compose_choices) -> DictConfig:
    """As ``compose_choices``, but Hydra composes the same choices once, unless a user's files are among them."""
    if _users_files(tree):
        return compose(tree, choices)
    key = tree, tuple(choices)
    if key not in _choices:  # a copy by pickle takes a quarter of deepcopy's time
        _choices[key] = pickle.dumps(compose(tree, choices))
    config: DictConfig = pickle.loads(_choices[key])
    config.hydra.runtime.cwd = os.getcwd()
    return config


def kept_whole(
    tree: ConfigTree, first: list[str], overrides: list[Override], known: dict[str, list[str]], compose=check.compose_whole
) -> tuple[list[str], DictConfig | None]:
    """As ``compose_whole``, but Hydra composes a choice of options once, and values are set in a copy of it."""
    values = [override for override in overrides if override.key_or_group not in known]
    choices = [override for override in overrides if override.key_or_group in known]
    if (
        _users_files(tree)
        or not all(check._is_plain(override, known) for override in overrides)
        or any("." not in override.key_or_group for override in values if isinstance(override.value(), dict))
        or not {override.key_or_group for override in values}.isdisjoint(check.sections_of(tree.name))
    ):
        return compose(tree, first, overrides, known)
    choices_of(overrides, known)  # refuses what is no option

    def text(override: Override) -> str:
        return str(override.input_line) if override.key_or_group in tree.own_groups else without_plus(override)

    texts = [text(override) for override in overrides]
    try:
        config = kept_choices(tree, [text(override) for override in choices])
        for override in OverridesParser.create().parse_overrides([*first, *map(text, values)]):
            OmegaConf.update(config, str(override.key_or_group), override.value(), merge=True)
    except (HydraException, OmegaConfBaseException, UserError):
        return texts, None
    _note(config.hydra, [*first, *texts])
    return texts, config


def _note(hydra: DictConfig, texts: list[str]) -> None:
    """Write into Hydra's node what was typed."""
    every = OverridesParser.create().parse_overrides(texts)
    own = [override for override in every if not override.is_hydra_override()]
    hydra.overrides.hydra = [override.input_line for override in every if override.is_hydra_override()]
    hydra.overrides.task = [override.input_line for override in own]
    if not OmegaConf.is_interpolation(hydra.job, "override_dirname"):  # since Hydra 1.4 a resolver reads the overrides
        names = hydra.job.config.override_dirname
        named = sorted(str(override.input_line) for override in own if override.key_or_group not in names.exclude_keys)
        hydra.job.override_dirname = names.item_sep.join(named).replace("=", names.kv_sep)


def compose_once(patch: "pytest.MonkeyPatch") -> None:
    """Let Hydra compose each choice of options once for all commands that are checked."""
    patch.setattr(check, "compose_choices", kept_choices)
    patch.setattr(check, "compose_whole", kept_whole)


def composed_of(tree: ConfigTree, texts: list[str]) -> DictConfig:
    """Return the config that Hydra composes of overrides. Raises UserError."""
    overrides, known = [override_of(text) for text in texts], groups() | {TABLES: options_in(TABLES)}
    config = kept_whole(tree, [], overrides, known)[1]
    return check.compose_choices(tree, texts) if config is None else config


def forget_options() -> None:
    """Remove the options that an earlier command of this process read from files."""
    for group in (*groups(), TABLES):
        ConfigStore.instance().repo.pop(group, None)
