"""Bounded reader of a run folder's YAML, which somebody else may have written.

Nine lines of anchors and aliases can stand for a billion values, and nested interpolations for hours of parsing. Configs of runs
have neither. The bounds lie far above every config and far below what takes a second.
"""

import io
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from neuro_cli.core.errors import UserError

BYTES = 1 << 19
VALUES = 20_000  # values in a file, an alias counted as all that it stands for
DEPTH = 50  # levels of nodes
INTERPOLATION = 1000  # characters of a text with an interpolation
# libyaml's parser where PyYAML has it: the one in Python takes seconds to find a file too large
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(path: Path) -> Any:
    """Return the plain lists, dicts and values of the saved YAML ``path``, interpolations unresolved. Raises UserError."""
    try:
        with path.open("rb") as file:
            content = file.read(BYTES + 1)
        _bound(content)
        return OmegaConf.to_container(OmegaConf.load(io.StringIO(content.decode())))
    except UserError as error:
        raise UserError(f"{path}: not a readable config: {error}") from error
    except Exception as error:  # a damaged file raises almost any exception
        raise UserError(f"{path}: not a readable config: {' '.join(str(error).split())[:200]}") from error


def _bound(content: bytes) -> None:
    """Raise UserError for more than a config can be. Counts the parser's events and makes no object of them."""
    if len(content) > BYTES:
        raise UserError(f"it is longer than {BYTES} bytes")
    named: dict[str, int] = {}
    open_nodes: list[list[Any]] = [["", 0]]
    for event in yaml.parse(content, Loader=_LOADER):
        if isinstance(event, yaml.ScalarEvent):
            if "${" in event.value and len(event.value) > INTERPOLATION:
                raise UserError(f"an interpolation of more than {INTERPOLATION} characters")
            _add(open_nodes, named, event.anchor, 1)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in named:
                raise UserError(f"the alias *{event.anchor} stands for what it is in, or for nothing")
            _add(open_nodes, named, "", named[event.anchor])
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append([event.anchor, 1])
            if len(open_nodes) > DEPTH:
                raise UserError(f"more than {DEPTH} levels in each other")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values = open_nodes.pop()
            _add(open_nodes, named, anchor, values)


def _add(open_nodes: list[list[Any]], named: dict[str, int], anchor: str | None, values: int) -> None:
    """Add a node's ``values`` to the node around it, and remember them under the node's anchor."""
    open_nodes[-1][1] += values
    if anchor:
        named[anchor] = values
    if open_nodes[-1][1] > VALUES:
        raise UserError(f"more than {VALUES} values, with what its aliases stand for")
