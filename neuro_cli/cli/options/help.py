"""Keys of a verb's config with the comments of the files in ``conf/``, for ``--help`` and for completion."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from neuro_cli.cli.options.groups import files_of, groups_of
from neuro_cli.core.files import config_folder

COLUMN = 44  # column in which comments begin
_KEY = re.compile(r"( *)([\w@/.-]+):(?: +(.*?))??(?: +# ?(.*))?")
OTHERS = ("hydra", "defaults")
LEFT_OUT = ("experiment", "table", "hydra")  # folders of conf/ with files that are no options of one group


def keys_of(file: Path) -> dict[str, str]:
    """Return all dotted keys of a YAML file with their comments, or an empty text; its first lines have the key ``""``."""
    texts: dict[str, str] = {}
    head: list[str] = []
    for line, key, comment in _lines(file.read_text()):
        if key:
            texts[key] = comment
        elif line.startswith("#") and not texts:
            head.append(line.lstrip("# "))
    return {"": " ".join(head), **texts}


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each line of YAML with its dotted key, which is empty for a line without one, and its comment."""
    path: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = _KEY.fullmatch(line)
        if match is not None:
            path = [part for part in path if part[0] < len(match[1])] + [(len(match[1]), match[2])]
        yield line, ".".join(name for _, name in path) if match else "", match[4] or "" if match else ""


def comments(verb: str, choices: Mapping[str, Any]) -> dict[str, str]:
    """Return the comments of all keys of ``neuro VERB``, whose groups have the options ``choices``; empty without one."""
    result: dict[str, str] = {}
    for name in files_of(verb):
        texts = keys_of(config_folder() / f"{name}.yaml")
        keys = [key for key in texts if key and key.partition(".")[0] not in OTHERS]
        result |= {key: texts[key] or result.get(key, "") for key in keys}  # a default that changes keeps its comment
    for group, option in choices.items():
        file = config_folder() / group / f"{option}.yaml"
        if group.partition("/")[0] not in LEFT_OUT and file.is_file():
            texts = keys_of(file)
            result[group] = f"{option}: {texts.pop('')}"
            result |= {f"{group}.{key}": text for key, text in texts.items()}
    return result


def leaves_of(verb: str, choices: Mapping[str, Any]) -> list[str]:
    """Return the keys that hold a value, of ``neuro VERB`` and of the options in ``choices``, by group."""
    keys = [key for key in comments(verb, choices) if not re.match(r"(.*\.)?_|known_|(.*\.)?defaults\b", key)]
    inner = {key.rpartition(".")[0] for key in keys} | groups_of(verb)
    return [key for key in keys if key not in inner]


def annotated(verb: str, composed: DictConfig) -> str:
    """Return the composed config as YAML, each key with its comment; tables of a verb's own choices are left out."""
    choices = OmegaConf.to_container(composed.hydra.runtime.choices)
    assert isinstance(choices, dict)
    texts = comments(verb, {str(group): option for group, option in choices.items()})
    keys = [str(key) for key in composed if key != "hydra" and not str(key).startswith("known_")]
    lines = _lines(OmegaConf.to_yaml(OmegaConf.masked_copy(composed, keys)))
    return "\n".join(f"{line:<{COLUMN}}  # {text}" if (text := texts.get(key)) else line for line, key, _ in lines)
