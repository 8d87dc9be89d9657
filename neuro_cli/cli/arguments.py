"""Arguments of verbs that take a run folder and keys, without Hydra."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from neuro_cli.cli.overrides.grammar import parse_plain
from neuro_cli.cli.registry import HELP
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.run_folder.short_names import folder_of

RUN_HELP = "a run folder, for example outputs/train/<stamp>; or latest, or a part of the stamp"
PATHS = ("file", "output")  # keys whose values are paths, which may have characters that Hydra's grammar refuses


class Parser(argparse.ArgumentParser):
    """Parser of a verb that takes a run folder; what it refuses is a UserError."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {' '.join(self.format_usage().split())}")


def run_arguments(verb: str, arguments: list[str], keys: Sequence[str]) -> tuple[Path, dict[str, Any]]:
    """Return folder and values by key of ``neuro VERB RUN [key=value ...]``. Raises UserError."""
    run, overrides = run_and_overrides(verb, arguments, keys)
    return run, values_of(overrides, keys, f"neuro {verb} takes")


def run_and_overrides(verb: str, arguments: list[str], keys: Sequence[str]) -> tuple[Path, list[str]]:
    """Return folder and overrides of ``neuro VERB RUN [key=value ...]``, with ``keys`` in its help. Raises UserError."""
    parser = Parser(f"neuro {verb}", description=HELP[verb], usage=f"neuro {verb} RUN [key=value ...]")
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help=f"keys: {', '.join(keys)}")
    options = parser.parse_args(arguments)
    return folder_of(options.run), options.overrides


def folder_of_internal(verb: str, arguments: list[str]) -> Path:
    """Return the folder of ``neuro VERB RUN``, which another command has made for this one. Raises UserError."""
    said = "Another command starts this, in a folder that it has made. neuro resume RUN continues a run."
    parser = Parser(f"neuro {verb}", description=said, usage=f"neuro {verb} RUN (internal; neuro resume RUN continues a run)")
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder with a written config")
    return parser.parse_args(arguments).run


def files_and_values(words: Iterable[str], keys: Sequence[str], takes: str) -> tuple[list[Path], dict[str, Any]]:
    """Return files and folders among ``words``, and the values of the others by key. Raises UserError."""
    overrides = [text for text in words if "=" in text and not Path(text).exists()]
    return [Path(text) for text in words if text not in overrides], values_of(overrides, keys, takes)


def values_of(overrides: Iterable[str], keys: Sequence[str], takes: str) -> dict[str, Any]:
    """Return the values of the arguments ``overrides`` by key. Raises ConfigError, ``takes`` before the ``keys``, for another.

    A key that ends with a dot stands for all below it.
    """
    values: dict[str, Any] = {}
    for text in overrides:
        key, _, value = text.partition("=")
        if key not in PATHS or key not in keys:
            key, value = parse_plain(text)
        if key not in keys and not key.startswith(tuple(each for each in keys if each.endswith("."))):
            raise ConfigError(key, value, f"{takes} {', '.join(keys)}")
        values[key] = value
    return values


def names(value: Any) -> list[str]:
    """Return the names in the argument ``trust``, which is one name or a list."""
    return [str(name) for name in (value if isinstance(value, list) else [value])]


def json_file(name: str) -> Path:
    """Return the file of the argument ``output=FILE.json``. Raises ConfigError."""
    file = Path(name)
    if file.suffix != ".json" or file.is_dir() or not file.parent.is_dir():
        raise ConfigError("output", name, "must be a file NAME.json in a folder that exists")
    return file


def set_key(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key of a nested config, an argument of the verb. Raises ConfigError for a key that it lacks."""
    *parents, last = key.split(".")
    for parent in parents:
        config = config.get(parent) or {}
    if last not in config:
        raise ConfigError(key, value, "this run's config has no such key")
    config[last] = value
