"""Keys of a verb's config with the comments of the files in ``conf/``: for ``--help``, and for the configuration reference."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from neuro_cli.core.files import config_folder

COLUMN = 44  # where comments begin
_KEY = re.compile(r"( *)([\w@/.-]+):(?: +(.*?))??(?: +# ?(.*))?")
OTHERS = ("hydra", "defaults")
LEFT_OUT = ("experiment", "table", "hydra")  # folders of conf/ whose files are no options of one group


def comments_of(file: Path) -> dict[str, str]:
    """Comments behind the keys of a YAML file, by dotted key; that of the file itself, its first lines, under ``""``."""
    found: dict[str, str] = {}
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
        if match[4]:
            found[".".join(name for _, name in path)] = match[4]
    return {"": " ".join(head), **found}


def comments(verb: str, choices: Mapping[str, Any]) -> dict[str, str]:
    """Comments of all keys of ``neuro VERB``, whose groups have the options ``choices``."""
    found: dict[str, str] = {}
    for name in _files(verb):
        own = comments_of(config_folder() / f"{name}.yaml")
        found |= {key: text for key, text in own.items() if key and key.partition(".")[0] not in OTHERS}
    for group, option in choices.items():
        file = config_folder() / group / f"{option}.yaml"
        if group.partition("/")[0] not in LEFT_OUT and file.is_file():
            own = comments_of(file)
            found[group] = f"{option}: {own.pop('')}"
            found |= {f"{group}.{key}": text for key, text in own.items()}
    return found


def _files(verb: str) -> Iterator[str]:
    """Config files of a verb that it takes over, then its own."""
    for entry in OmegaConf.select(OmegaConf.load(config_folder() / f"{verb}.yaml"), "defaults", default=[]):
        if isinstance(entry, str) and entry != "_self_":
            yield from _files(entry)
    yield verb


def annotated(verb: str, composed: DictConfig) -> str:
    """The composed config as YAML, each key with its comment."""
    choices = OmegaConf.to_container(composed.hydra.runtime.choices)
    assert isinstance(choices, dict)
    told = comments(verb, {str(group): option for group, option in choices.items()})
    keys = [str(key) for key in composed if key != "hydra"]
    path: list[tuple[int, str]] = []
    lines = []
    for line in OmegaConf.to_yaml(OmegaConf.masked_copy(composed, keys)).splitlines():
        match = _KEY.fullmatch(line)
        text = ""
        if match is not None:
            path = [part for part in path if part[0] < len(match[1])] + [(len(match[1]), match[2])]
            text = told.get(".".join(name for _, name in path), "")
        lines.append(f"{line:<{COLUMN}}  # {text}" if text else line)
    return "\n".join(lines)


def page(verbs: Mapping[str, DictConfig], groups: Mapping[str, list[str]]) -> str:
    """The configuration reference: root keys of ``verbs`` with their composed defaults, then every option of ``groups``."""
    parts = [HEAD]
    for verb, composed in verbs.items():
        told = comments(verb, {})
        parts += [f"## neuro {verb}", "", *TABLE, *_rows(_plain(composed), told, groups), ""]
    for group, options in groups.items():
        parts += [f"## {group}", ""]
        for option in options:
            file = config_folder() / group / f"{option}.yaml"
            told = comments_of(file)
            node = OmegaConf.to_container(OmegaConf.load(file))
            assert isinstance(node, dict)
            rows = _rows({str(key): value for key, value in node.items()}, told, {})
            parts += [f"### {group}={option}", "", f"{_cell(told[''])}.", ""] if told[""] else [f"### {group}={option}", ""]
            parts += [*TABLE, *rows, ""] if rows else []
    return "\n".join(parts).rstrip() + "\n"


HEAD = """# Configuration

Every key with its default and the comment of its file in `conf/`, made by `make docs`. `neuro train --help` shows the same for
the options that are chosen. A key is set by `key=value`, an
option by `group=option`; `a: {b: 1}` is typed `a.b=1`.
"""
TABLE = ("| key | default | meaning |", "|---|---|---|")
NOT_TOLD = ("_target_", "_partial_", "key")  # the class behind an option, and what a schedule is called in errors


def _plain(composed: DictConfig) -> dict[str, Any]:
    node = OmegaConf.to_container(
        OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"]), resolve=False
    )
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items()}


def _rows(node: Mapping[str, Any], told: Mapping[str, str], groups: Mapping[str, Any], prefix: str = "") -> list[str]:
    rows = []
    for name, value in node.items():
        key = f"{prefix}{name}"
        if name in NOT_TOLD or key in groups or name == "defaults" or key.startswith("known_"):
            continue
        if isinstance(value, dict) and value:
            rows += _rows(value, told, groups, f"{key}.")
        else:
            text = told.get(key) or (told.get(prefix.rstrip("."), "") if prefix else "")
            rows.append(f"| `{key}` | `{_value(value)}` | {_cell(text)} |")
    return rows


def _value(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value).replace("|", "\\|")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
