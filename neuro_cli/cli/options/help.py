"""Keys of a verb's config with the comments of the files in ``conf/``: for ``--help``, and for the configuration reference."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from neuro_cli.cli.options.groups import defaults_of
from neuro_cli.core.files import config_folder

COLUMN = 44  # where comments begin
_KEY = re.compile(r"( *)([\w@/.-]+):(?: +(.*?))??(?: +# ?(.*))?")
OTHERS = ("hydra", "defaults")
LEFT_OUT = ("experiment", "table", "hydra")  # folders of conf/ with files that are no options of one group


def comments_of(file: Path) -> dict[str, str]:
    """Return the comments behind the keys of a YAML file, by dotted key; the comment of the file itself has the key ``""``."""
    return {key: text for key, text in keys_of(file).items() if text or not key}


def keys_of(file: Path) -> dict[str, str]:
    """Return all dotted keys of a YAML file with their comments, or an empty text; its first lines have the key ``""``."""
    texts: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    head: list[str] = []
    for line in file.read_text().splitlines():
        if line.startswith("#") and not path:
            head.append(line.lstrip("# "))
        match = _KEY.fullmatch(line)
        if match is None:
            continue
        depth = len(match[1])
        path = [part for part in path if part[0] < depth] + [(depth, match[2])]
        texts[".".join(name for _, name in path)] = match[4] or ""
    return {"": " ".join(head), **texts}


def comments(verb: str, choices: Mapping[str, Any]) -> dict[str, str]:
    """Return the comments of all keys of ``neuro VERB``, whose groups have the options ``choices``."""
    result: dict[str, str] = {}
    for name in _files(verb):
        texts = comments_of(config_folder() / f"{name}.yaml")
        result |= {key: text for key, text in texts.items() if key and key.partition(".")[0] not in OTHERS}
    for group, option in choices.items():
        file = config_folder() / group / f"{option}.yaml"
        if group.partition("/")[0] not in LEFT_OUT and file.is_file():
            texts = comments_of(file)
            result[group] = f"{option}: {texts.pop('')}"
            result |= {f"{group}.{key}": text for key, text in texts.items()}
    return result


def leaves_of(verb: str) -> list[str]:
    """Return the keys of ``neuro VERB`` and of the options that it has by default, those that hold a value."""
    texts: dict[str, str] = {}
    for name in _files(verb):
        texts |= keys_of(config_folder() / f"{name}.yaml")
    for group, option in defaults_of(verb).items():
        file = config_folder() / group / f"{option}.yaml"
        if file.is_file():
            texts |= {f"{group}.{key}": text for key, text in keys_of(file).items()}
    keys = [key for key in texts if not re.match(rf"(.*\.)?(_|$)|known_|({'|'.join(OTHERS)})\b", key)]
    parents = {key.rpartition(".")[0] for key in keys}
    return [key for key in keys if key not in parents]


def _files(verb: str) -> Iterator[str]:
    """Yield the names of the config files that a verb takes over, then its own."""
    for entry in OmegaConf.select(OmegaConf.load(config_folder() / f"{verb}.yaml"), "defaults", default=[]):
        if isinstance(entry, str) and entry != "_self_":
            yield from _files(entry)
    yield verb


def annotated(verb: str, composed: DictConfig) -> str:
    """Return the composed config as YAML, each key with its comment; tables of a verb's own choices are left out."""
    choices = OmegaConf.to_container(composed.hydra.runtime.choices)
    assert isinstance(choices, dict)
    texts = comments(verb, {str(group): option for group, option in choices.items()})
    keys = [str(key) for key in composed if key != "hydra" and not str(key).startswith("known_")]
    path: list[tuple[int, str]] = []
    lines = []
    for line in OmegaConf.to_yaml(OmegaConf.masked_copy(composed, keys)).splitlines():
        match = _KEY.fullmatch(line)
        text = ""
        if match is not None:
            path = [part for part in path if part[0] < len(match[1])] + [(len(match[1]), match[2])]
            text = texts.get(".".join(name for _, name in path), "")
        lines.append(f"{line:<{COLUMN}}  # {text}" if text else line)
    return "\n".join(lines)


def page(verbs: Mapping[str, DictConfig], groups: Mapping[str, list[str]]) -> str:
    """Return the configuration reference: root keys of ``verbs`` with their composed defaults, then options of ``groups``."""
    parts = [HEAD]
    for verb, composed in verbs.items():
        texts = comments(verb, {})
        parts += [f"## neuro {verb}", "", *TABLE, *_rows(_plain(composed), texts, groups), ""]
    for group, options in groups.items():
        parts += [f"## {group}", ""]
        for option in options:
            file = config_folder() / group / f"{option}.yaml"
            texts = comments_of(file)
            node = OmegaConf.to_container(OmegaConf.load(file))
            assert isinstance(node, dict)
            rows = _rows({str(key): value for key, value in node.items()}, texts, {})
            parts += [f"### {group}={option}", "", f"{_cell(texts[''])}.", ""] if texts[""] else [f"### {group}={option}", ""]
            parts += [*TABLE, *rows, ""] if rows else []
    return "\n".join(parts).rstrip() + "\n"


HEAD = """# Configuration

Every key with its default and the comment of its file in `conf/`, made by `make docs`. `neuro train --help` shows the same for
the options that are chosen. A key is set by `key=value`, an
option by `group=option`; `a: {b: 1}` is typed `a.b=1`.
"""
TABLE = ("| key | default | meaning |", "|---|---|---|")
LEFT_OUT_KEYS = ("_target_", "_partial_", "key")  # the class behind an option, and what a schedule is called in errors


def _plain(composed: DictConfig) -> dict[str, Any]:
    node = OmegaConf.to_container(
        OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"]), resolve=False
    )
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items()}


def _rows(node: Mapping[str, Any], texts: Mapping[str, str], groups: Mapping[str, Any], prefix: str = "") -> list[str]:
    rows = []
    for name, value in node.items():
        key = f"{prefix}{name}"
        if name in LEFT_OUT_KEYS or key in groups or name == "defaults" or key.startswith("known_"):
            continue
        if isinstance(value, dict) and value:
            rows += _rows(value, texts, groups, f"{key}.")
        else:
            text = texts.get(key) or (texts.get(prefix.rstrip("."), "") if prefix else "")
            rows.append(f"| `{key}` | `{_value(value)}` | {_cell(text)} |")
    return rows


def _value(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value).replace("|", "\\|")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
