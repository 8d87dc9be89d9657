"""Overrides by Hydra's grammar: read, written from values, and the options of groups that they choose."""

import numbers
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException

from neuro_cli.cli.options.groups import TABLES, defaults_of, groups
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import nearest, no_option
from neuro_cli.launch.quoting import quoted

OWN_CLASSES = ("algo",)  # groups where a class by its name has its own arguments alone


def override_of(text: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise UserError(f"{text}: not an override of the form key=value ({str(error).splitlines()[0]})") from error


def own_classes(overrides: list[Override]) -> list[str]:
    """Return the groups whose class the overrides name while they choose no option, as ``algo._target_=my.CEM`` does."""
    keys = {override.key_or_group for override in overrides if not override.is_delete()}
    return [group for group in OWN_CLASSES if f"{group}._target_" in keys and group not in keys]


def alone(overrides: list[Override]) -> list[Override]:
    """Return overrides that remove the default option of a group whose class is named: its values belong to another class."""
    for group in own_classes(overrides):
        others = [override for override in overrides if override.key_or_group != group]
        texts = [f"++{without_plus(o)}" if o.key_or_group.startswith(f"{group}.") else str(o.input_line) for o in others]
        overrides = [override_of(text) for text in (*texts, f"~{group}")]
    return overrides


def parse_plain(text: str) -> tuple[str, Any]:
    """Parse a ``key=value`` argument of a verb that Hydra does not run as (key, value). Raises UserError."""
    override = override_of(text)
    if sweeps(override) or override.is_delete():
        raise UserError(f"{text}: one plain key=value is allowed here; a list is written {override.key_or_group}=[A,B]")
    value = override.value()
    return override.key_or_group, value


def without_plus(override: Override) -> str:
    return str(override.input_line).lstrip("+")


def hydras_text(override: Override) -> str:
    """Return an override of one of Hydra's keys, which may exist or not where the user typed a ``+``."""
    return f"++{without_plus(override)}" if override.is_add() else str(override.input_line)


def sweeps(override: Override) -> bool:
    return bool(override.is_sweep_override())


def is_hydras(override: Override, available: dict[str, list[str]]) -> bool:
    """Return whether the override sets one of Hydra's own keys, or removes a group from the defaults."""
    removes = override.is_delete() and override.key_or_group in available
    return removes or override.key_or_group.startswith(("hydra.", "hydra/"))


def is_default_null(verb: str, override: Override, available: dict[str, list[str]]) -> bool:
    """Return whether the override chooses no option of a group that has none by default. Raises ConfigError in a sweep."""
    group = override.key_or_group
    if group not in available or defaults_of(verb).get(group, "") is not None or override.is_delete():
        return False
    if sweeps(override) and {"None", "null"} & set(values_of(override, available[group])):
        raise ConfigError(group, "null", "a sweep chooses options; runs without one are a sweep of their own")
    return not sweeps(override) and override.value() is None


def values_of(override: Override, available: list[str]) -> list[str]:
    value = override.value()
    if isinstance(value, Glob):
        return list(value.filter(available))
    if isinstance(value, list):
        return [f"[{','.join(map(str, value))}]"]
    if override.is_choice_sweep() or override.is_range_sweep():
        return [str(value) for value in override.sweep_string_iterator()]
    return [str(value)]


def choices_of(overrides: list[Override], available: dict[str, list[str]]) -> list[list[str]]:
    """Return the choices of a sweep's first job, then the same with each other option of a swept group in turn."""
    options = [_options(override, available) for override in overrides if override.key_or_group in available]
    options = [values for values in options if values]
    first = [values[0] for values in options]
    return [first] + [[*first[:i], value, *first[i + 1 :]] for i, values in enumerate(options) for value in values[1:]]


def _options(override: Override, available: dict[str, list[str]]) -> list[str]:
    """Return the pairs ``group=option`` that the override chooses. Raises UserError for an unknown option."""
    name = override.key_or_group
    if override.is_delete():
        return []
    values = values_of(override, available[name])
    if not values:
        raise UserError(f"{override.input_line}: matches no option; {nearest('', available[name])}")
    for value in values:
        for option in re.split(r",\s*", value.strip("[]")) if name == TABLES else [value]:
            if option not in available[name]:
                raise no_option(name, option, available[name])
    # no defaults list has a group of the user's own folder, so it keeps its +
    plus = "+" if override.is_add() and name not in groups() and name != TABLES else ""
    return [f"{plus}{name}={value}" for value in values]


def overrides_of(values: Mapping[str, Any], above: str = "", prefix: str = "") -> Iterator[str]:
    """Yield the overrides that set ``values``, keys below ``above``. A node with a ``_target_`` takes new keys, its arguments."""
    prefix = "++" if "_target_" in values else prefix
    for name, value in values.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping) and value:
            yield from overrides_of(value, f"{key}.", prefix)
        else:
            yield f"{prefix}{key}={text_of(key, value)}"


def text_of(key: str, value: Any) -> str:
    """Return ``value`` in the grammar of overrides, which reads the same value from it. Raises ConfigError for an object."""
    if value is None:
        return "null"
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's is no bool, and is not imported for this
        return str(bool(value)).lower()
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, str | Path):
        text = quoted(str(value))
        # a text like 1e3 or true needs quotes to stay one
        return text if text.startswith("'") or parse_plain(f"x={text}")[1] == str(value) else f"'{text}'"
    if isinstance(value, list | tuple):
        return f"[{','.join(text_of(key, item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name}:{text_of(key, item)}' for name, item in value.items())}}}"
    raise ConfigError(key, value, f"must be a plain value, not a {type(value).__name__}")
