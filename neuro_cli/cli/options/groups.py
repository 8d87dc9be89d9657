"""Groups of ``conf/`` and their options: names, help, and the config of one option."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.files import config_folder
from neuro_cli.core.removed import no_option

SEVERAL = "neuro_cli.logger.several.Several"  # what a list of loggers becomes
TABLES = "table"  # the group with options that are entries of neuro reproduce; several can be chosen
NO_GROUPS = ("hydra", TABLES)  # folders of conf/ that hold no options: Hydra's own, and the entries of neuro reproduce


def groups() -> dict[str, list[str]]:
    """Config groups and their options."""
    folders = sorted(folder for folder in config_folder().iterdir() if folder.is_dir() and folder.name not in NO_GROUPS)
    return {folder.name: options_in(folder.name) for folder in folders}


def options_in(group: str) -> list[str]:
    """Options in the folder of a group."""
    return sorted(file.stem for file in (config_folder() / group).glob("*.yaml"))


def groups_of(verb: str) -> set[str]:
    """Groups of a verb's config: those in its defaults list, and in the lists of the files named there."""
    return {name for name in defaults_of(verb) if not name.startswith("hydra/")}


def defaults_of(verb: str) -> dict[str, str | None]:
    """Option of every group in those lists of a verb, None without one; later entries count."""
    found: dict[str, str | None] = {}
    for entry in _file_of(verb).get("defaults", []):
        if entry == "_self_":
            continue
        if isinstance(entry, str):
            found |= defaults_of(entry)
        else:
            found |= {str(name).removeprefix("override ").partition("@")[0]: option for name, option in entry.items()}
    return found


@cache  # a check of arguments asks for it several times, and YAML takes ten milliseconds
def _file_of(verb: str) -> dict[str, Any]:
    """Content of a verb's own file, not to be changed."""
    node = OmegaConf.to_container(OmegaConf.load(config_folder() / f"{verb}.yaml"))
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items()}


def sections_of(verb: str) -> set[str]:
    """Keys of a verb's own file, and of the files in its defaults list, that have keys below them."""
    file = _file_of(verb)
    found = {str(key) for key, value in file.items() if isinstance(value, dict)}
    named = [entry for entry in file.get("defaults", []) if isinstance(entry, str) and entry != "_self_"]
    return found.union(*map(sections_of, named))


def groups_help(verb: str, available: Mapping[str, list[str]]) -> str:
    """Return a line for each ``available`` group of a verb with its options, groups of the user's own among them."""
    others = {*NO_GROUPS, *groups()} - groups_of(verb)
    names = [name for name in sorted(available) if name.partition("/")[0] not in others]
    return "\n".join(f"{name}: {', '.join(available[name])}" for name in names)


def option_of(group: str, option: Any) -> dict[str, Any]:
    """Config of one option of a group, or of a list of loggers. Raises ConfigError for an unknown one."""
    if group == "logger" and isinstance(option, list):
        return several_of(option)
    known = groups()[group]
    if option not in known:
        raise no_option(group, str(option), known)
    node = OmegaConf.to_container(OmegaConf.load(config_folder() / group / f"{option}.yaml"))
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items() if key != "defaults"}  # what it chooses in other groups is Hydra's


def several_of(names: list[str]) -> dict[str, Any]:
    """Config of several options of the group ``logger``. Raises ConfigError for an unknown one, or one twice."""
    options = {name: option_of("logger", name) for name in names}
    if len(options) < len(names):
        raise ConfigError("logger", f"[{','.join(map(str, names))}]", "one of them stands there twice")
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
