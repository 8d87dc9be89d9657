"""Checks that the key of an override is in the config, and names the nearest ones."""

from typing import Any

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.cli.overrides.grammar import hydras_text, sweeps, without_plus
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import near, nearest


def checked_key(override: Override, bases: list[DictConfig], available: dict[str, list[str]], tree: ConfigTree) -> str:
    """Return the override with the prefix that Hydra needs. Raises UserError for an unknown key.

    ``bases``: the config with the chosen options, one for every option of a sweep.
    """
    text, key, bare = str(override.input_line), override.key_or_group, without_plus(override)
    if override.is_delete() or "@" in text.split("=")[0] or key.startswith("hydra/"):
        return text
    if key in available:
        return text if key in tree.own_groups else bare
    if key.startswith("hydra."):
        return hydras_text(override)
    base = next((config for config in bases if not _exists(config, key)), bases[0])
    exists = _exists(base, key)
    if override.is_add() or override.is_force_add():
        if exists:
            return bare
        if "." not in key:
            words = [*available, *(str(name) for name in base if name != "hydra")]
            raise ConfigError(f"+{key}", "=".join(text.split("=")[1:]), f"no such group or key; {nearest(key, words)}")
        parent = key.rsplit(".", 1)[0]
        if not _exists(base, parent):
            keys = keys_of(base)
            nodes = [node for node in keys if any(other.startswith(f"{node}.") for other in keys)]
            raise UserError(f"{text}: no such key {parent}; {nearest(parent, nodes)}")
        return text if len(bases) == 1 else f"++{bare}"  # an option of a sweep may have it
    if exists:
        _refuse_value_of_node(override, base)
        return text
    parent, _, last = key.rpartition(".")
    if last == "_target_" and parent and OmegaConf.select(base, parent, default=base) is None:
        return f"++{bare}"  # a class for a key that is null by default
    keys = keys_of(base)
    words = [*available, *keys] if parent else [name for name in (*available, *keys) if "." not in name]
    raise no_key(key, "=".join(text.split("=")[1:]), words, keys)


def no_key(key: str, value: str, words: list[str], keys: list[str]) -> ConfigError:
    """Return the error for an absent ``key``, with the nearest of ``words``, else with those next to it in ``keys``."""
    parent = key.rpartition(".")[0]
    new = f"; a new one is added with +{key}=" if parent in keys else ""
    if not near(key, words):
        while parent and parent not in keys:
            parent = parent.rpartition(".")[0]
        words = [name for name in keys if name.rpartition(".")[0] == parent]  # next to each other, not all of a config
    return ConfigError(key, value, f"no such key; {nearest(key, words)}{new}")


def _refuse_value_of_node(override: Override, base: DictConfig) -> None:
    """Raise ConfigError for a plain value in place of keys: ``checkpoint=5`` would remove all of them."""
    node, value = OmegaConf.select(base, override.key_or_group), override.value()
    plain = isinstance(value, int | float | bool | list) or (isinstance(value, str) and "${" not in value)
    if isinstance(node, DictConfig) and len(node) and plain and not sweeps(override):
        keys = ", ".join(f"{override.key_or_group}.{key}" for key in map(str, node))
        raise ConfigError(override.key_or_group, value, f"it has keys of its own: {keys}")


def _exists(config: DictConfig, key: str) -> bool:
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, DictConfig) or part not in node.keys():  # noqa: SIM118  # `in node` resolves interpolations
            return False
        node = None if OmegaConf.is_interpolation(node, part) or OmegaConf.is_missing(node, part) else node[part]
    return True


def keys_of(config: DictConfig) -> list[str]:
    """Return the dotted keys of the config, without Hydra's own."""
    names: list[str] = []

    def walk(node: Any, prefix: str) -> None:
        if isinstance(node, dict):
            for name, value in node.items():
                if prefix or name != "hydra":
                    names.append(f"{prefix}{name}")
                    walk(value, f"{prefix}{name}.")

    walk(OmegaConf.to_container(config, resolve=False), "")
    return names
