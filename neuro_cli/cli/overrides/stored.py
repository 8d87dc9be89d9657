"""Options from a user's files, and lists of options: Hydra gets each under a name of its own."""

import re
from itertools import count
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from neuro_cli.cli.options.groups import TABLES, several_of
from neuro_cli.core.errors import ConfigError


def with_stored_files(text: str, available: dict[str, list[str]]) -> str:
    """Replace ``model=FOLDER/NAME.yaml``: the file becomes an option of its group, named NAME, which the override chooses.

    ``available`` has it afterwards. Raises ConfigError for a file that is absent or no option.
    """
    key, equals, values = text.partition("=")
    group = key.lstrip("+")
    if group not in available or not equals:
        return text
    if group == "logger" and (listed := re.fullmatch(r"\[([\w, ]*)\]", values)):
        return f"{key}={_several(re.split(r'[, ]+', listed[1].strip(' ,')), available)}"
    # brackets of lists stay in place, in a sweep of lists too
    parts = re.split(r"([\[\],])", values)
    return f"{key}={''.join(_stored(group, Path(part), available) if part.endswith('.yaml') else part for part in parts)}"


def _stored(group: str, file: Path, available: dict[str, list[str]]) -> str:
    """Store ``file`` as an option of ``group`` and return its name: that of the file, with a number if it is taken."""
    try:
        node = OmegaConf.load(file)
    except OSError as error:
        raise ConfigError(group, file, f"it cannot be read: {error.strerror}") from error
    except Exception as error:  # YAML's errors are many
        raise ConfigError(group, file, f"it is no YAML: {' '.join(str(error).split())[:160]}") from error
    if not isinstance(node, DictConfig) or ("_target_" not in node and group != TABLES):
        raise ConfigError(
            group, file, "an option is a file of keys, _target_ among them" if group != TABLES else "an entry is a file of keys"
        )
    stem = re.sub(r"\W", "_", file.stem)  # the name may become a key
    names = (f"{stem}_{number}" if number > 1 else stem for number in count(1))
    name = next(name for name in names if name not in available[group])
    ConfigStore.instance().store(name, node, group, f"tables.{name}" if group == TABLES else None)
    available[group].append(name)
    return name


def _several(names: list[str], available: dict[str, list[str]]) -> str:
    """Store the loggers ``names`` as one option, with each under its own name, and return its name. Raises ConfigError."""
    name = "_".join(names)
    if name not in available["logger"]:
        ConfigStore.instance().store(name, OmegaConf.create(several_of(names)), "logger")
        available["logger"].append(name)
    return name
