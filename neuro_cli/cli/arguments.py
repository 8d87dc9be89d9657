"""Arguments of verbs that take a run folder and keys, without Hydra."""

import argparse
from pathlib import Path
from typing import Any, NoReturn

from neuro_cli.cli.registry import HELP
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.run_folder.names import folder_of

RUN_HELP = "a run folder, for example outputs/train/<stamp>; or latest, or a part of the stamp"


class Parser(argparse.ArgumentParser):
    """Parser of a verb that takes a run folder; what it refuses is a UserError."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {' '.join(self.format_usage().split())}")


def run_arguments(verb: str, arguments: list[str]) -> argparse.Namespace:
    """Parse ``run`` and ``overrides`` of the command ``neuro VERB RUN [key=value ...]``. Raises UserError."""
    parser = Parser(f"neuro {verb}", description=HELP[verb], usage=f"neuro {verb} RUN [key=value ...]")
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value")
    options = parser.parse_args(arguments)
    options.run = folder_of(options.run)
    return options


def names(value: Any) -> list[str]:
    """Names in the value of ``trust``, one or a list of them."""
    return [str(name) for name in (value if isinstance(value, list) else [value])]


def set_key(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key of a nested config. Raises ConfigError for one that is not there."""
    *parents, last = key.split(".")
    for parent in parents:
        config = config.get(parent) or {}
    if last not in config:
        raise ConfigError(key, value, "this run's config has no such key")
    config[last] = value
