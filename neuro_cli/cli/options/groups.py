"""Groups of ``conf/`` and their options: names, help, and the config of one option."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.files import config_folder
from neuro_cli.core.messages.did_you_mean import no_option

SEVERAL = "neuro_cli.logger.several.Several"  # class of a list of loggers
TABLES = "table"  # group of the entries of neuro reproduce; several can be chosen
NO_GROUPS = ("hydra", TABLES)  # folders of conf/ without options: Hydra's own, and the entries of neuro reproduce


def groups() -> dict[str, list[str]]:
    """Return the config groups and their options."""
    folders = sorted(folder for folder in config_folder().iterdir() if folder.is_dir() and folder.name not in NO_GROUPS)
    return {folder.name: options_in(folder.name) for folder in folders}


def options_in(group: str) -> list[str]:
    """Return the options in the folder of a group."""
    return sorted(file.stem for file in (config_folder() / group).glob("*.yaml"))


def groups_of(verb: str) -> set[str]:
    """Return the groups in the defaults list of a verb, and in the lists of the files named there."""
    return {name for name in defaults_of(verb) if not name.startswith("hydra/")}


def defaults_of(verb: str) -> dict[str, str | None]:
    """Return the option of every group in these lists of a verb, None without one. Later entries count."""
    return {group: option for name in files_of(verb) for group, option in _entries_of(name).items()}


def choices_of(verb: str, typed: Mapping[str, str]) -> dict[str, str | None]:
    """Return the option of every group of a verb, where a command line has ``typed`` some.

    An option's file may choose those of other groups: an experiment's before a task's, and a typed one before both.
    """
    settled: dict[str, str | None] = {group: option for group, option in typed.items() if group in groups_of(verb)}
    chosen = defaults_of(verb) | settled
    for group in ("experiment", *chosen):
        name = f"{group}/{chosen.get(group)}"
        if (config_folder() / f"{name}.yaml").is_file():
            settled = _entries_of(name) | settled
            chosen |= settled
    return chosen


def _entries_of(name: str) -> dict[str, str | None]:
    """Return the option of every group in the defaults list of a config file."""
    entries = [entry for entry in _file_of(name).get("defaults", []) if isinstance(entry, dict)]
    options = [pair for entry in entries for pair in entry.items()]
    return {str(key).removeprefix("override ").lstrip("/").partition("@")[0]: option for key, option in options}


def files_of(verb: str) -> list[str]:
    """Return the names of the config files that a verb takes over, then its own."""
    named = [entry for entry in _file_of(verb).get("defaults", []) if isinstance(entry, str) and entry != "_self_"]
    return [name for entry in named for name in files_of(entry)] + [verb]


@cache  # a check of arguments asks for it several times, and YAML takes ten milliseconds
def _file_of(name: str) -> dict[str, Any]:
    """Return the content of a config file, a verb's own or GROUP/OPTION, not to be changed."""
    node = OmegaConf.to_container(OmegaConf.load(config_folder() / f"{name}.yaml"))
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items()}


def sections_of(verb: str) -> set[str]:
    """Return the keys that have keys below them, in a verb's own file and the files in its defaults list."""
    return {key for name in files_of(verb) for key, value in _file_of(name).items() if isinstance(value, dict)}


def groups_help(verb: str, available: Mapping[str, list[str]]) -> str:
    """Return a line for each ``available`` group of a verb with its options, groups of the user's own among them."""
    others = {*NO_GROUPS, *groups()} - groups_of(verb)
    names = [name for name in sorted(available) if name.partition("/")[0] not in others]
    return "\n".join(f"{name}: {', '.join(available[name])}" for name in names)


def option_of(group: str, option: Any) -> dict[str, Any]:
    """Return the config of one option of a group, or of a list of loggers. Raises ConfigError for an unknown one."""
    if group == "logger" and isinstance(option, list):
        return several_of(option)
    options = groups()[group]
    if option not in options:
        raise no_option(group, str(option), options)
    node = OmegaConf.to_container(OmegaConf.load(config_folder() / group / f"{option}.yaml"))
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items() if key != "defaults"}  # Hydra applies choices of other groups


def several_of(names: list[str]) -> dict[str, Any]:
    """Return the config of several options of the group ``logger``. Raises ConfigError for one that is unknown or repeated."""
    options = {name: option_of("logger", name) for name in names}
    if len(options) < len(names):
        raise ConfigError("logger", f"[{','.join(map(str, names))}]", "one of them is listed twice")
    return {"_target_": SEVERAL, **options}


def with_members(config: dict[str, Any]) -> dict[str, Any]:
    """Expand the networks that ``algo.members`` names by option. Raises ConfigError for an unknown one."""
    members = config["algo"].get("members") if isinstance(config.get("algo"), dict) else None
    if not isinstance(members, list):
        return config

    def whole(entry: Any) -> Any:
        named = isinstance(entry, dict) and isinstance(entry.get("model"), str)
        return {**entry, "model": option_of("model", entry["model"])} if named else entry

    return {**config, "algo": {**config["algo"], "members": [whole(entry) for entry in members]}}
