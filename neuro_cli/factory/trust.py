"""Trust in configs from elsewhere (in a run folder, or from a network): code of other packages is refused.

Instantiating a class that a config names runs its code. The check covers all nested nodes, since construction does too. Some
arguments of our classes name modules that a library imports (the id of an environment and its options). A class lists them as
``imports``, and the same rule holds for them. ``functions`` lists arguments that may be dotted names of functions, ``starts`` the
value by which an argument starts programs that the config names: such a value needs trust itself.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.machine.current_folder import trusted_by_user
from neuro_cli.factory.construct import NOTATION
from neuro_cli.factory.instantiate import OURS, found_by, is_ours
from neuro_cli.factory.own_code import let_trusted
from neuro_cli.factory.script_objects import is_made
from neuro_cli.run_folder.identity import leaves

# package:name and package.module.Class, which gymnasium and its environments import; names of simulators' files do not match
_IMPORT = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:(?!//).*|(?!.*\.xml$)[^\W\d]\w*(?:\.[^\W\d]\w*)+", re.DOTALL)
# arguments that make torchvision's networks download a file and unpickle it
_FETCHING = ("weights", "weights_backbone", "pretrained", "pretrained_backbone")


@dataclass(frozen=True)
class Named:
    """Value in a config that names code of ``package``; ``target``: it is a ``_target_``."""

    key: str
    value: str
    package: str
    target: bool


def refuse_untrusted(config: Mapping[str, Any], trust: list[str], also: tuple[str, ...] = ()) -> None:
    """Raise UserError when ``config`` names code that is not ours, torch's, below ``also`` or of a package in ``trust``.

    A package in ``trust`` may lie in the current folder; the user's own environment may name more (``NEURO_TRUST``).
    """
    by_user = trusted_by_user()
    foreign = [each for each in _named(config) if not (each.target and is_ours(each.value, (*OURS, *also)))]
    needed = list(dict.fromkeys(each.package for each in foreign if each.package not in by_user))
    if untrusted := [each for each in foreign if each.package in needed and each.package not in trust]:
        first = untrusted[0]
        others = dict.fromkeys(each.package for each in untrusted if each.package != first.package)
        text = f"{first.key}={first.value}: it runs code of {first.package}"
        more = f", and other keys that of {', '.join(others)}" if others else ""
        # another trust= takes the place of this one, so all that the config needs is named
        asked = needed[0] if len(needed) == 1 else f"[{','.join(needed)}]"
        raise UserError(f"{text}{more}; pass trust={asked} if this run folder is yours")
    let_trusted([*trust, *by_user])


def refuse_foreign(config: Mapping[str, Any], what: str) -> None:
    """Raise ConfigError when ``config`` names code that is neither ours nor torch's; ``what`` is made of it."""
    for named in _named(config):
        if not (named.target and is_ours(named.value)):
            raise ConfigError(named.key, named.value, f"{what} are made of classes of neuro and torch only")


def _named(config: Mapping[str, Any]) -> Iterator[Named]:
    """Yield the code that ``config`` names. Raises ConfigError for what could hide some from this search."""
    for key, value in leaves(config):
        # resolved configs have no interpolations
        if isinstance(value, str) and "${" in value:
            raise ConfigError(key, value, "an interpolation is not resolved here")
    for key, node in _made(config):
        if is_made(node) and node is config.get(key):
            continue  # an object of a script, which ``make`` never constructs
        target = node["_target_"]
        if not isinstance(target, str):
            raise ConfigError(f"{key}._target_", target, "must be the name of a class")
        yield Named(f"{key}._target_", target, target.split(".")[0], target=True)
        yield from _imported(key, node, target)


def _imported(key: str, node: dict[str, Any], target: str) -> Iterator[Named]:
    """Yield the code that arguments of our or torch's classes name; arguments of other classes are their own matter."""
    if not is_ours(target):
        return
    if target.startswith("torchvision."):
        fetching = [name for name in _FETCHING if node.get(name)] + ["_args_"] * bool(node.get("_args_"))
        yield from (Named(f"{key}.{name}", str(node[name]), "torchvision", target=False) for name in fetching)
        return
    function = found_by(target)
    for name, starting in getattr(function, "starts", {}).items():
        if _argument(function, node, name) == starting:
            yield Named(f"{key}.{name}", starting, starting, target=False)
    for name in getattr(function, "functions", ()):
        for where, text in leaves(_argument(function, node, name), f"{key}.{name}"):
            if isinstance(text, str) and re.search(r"[.:]", text):
                yield Named(where, text, re.split(r"[.:]", text)[0], target=False)
    for name in getattr(function, "imports", ()):
        for where, value in leaves(_argument(function, node, name), f"{key}.{name}"):
            text = str(value)
            # gymnasium imports the part of an id before its colon
            if _IMPORT.fullmatch(text) or (where == f"{key}.{name}" and ":" in text):
                yield Named(where, text, re.split(r"[.:]", text)[0], target=False)


def _argument(function: Callable[..., Any], node: dict[str, Any], name: str) -> Any:
    """Return the argument ``name`` of a call by ``node``, given by place or by name; None without one."""
    given = {key: value for key, value in node.items() if key not in NOTATION}
    try:
        bound = inspect.signature(function).bind_partial(*node.get("_args_", ()), **given)
    except TypeError:  # an invalid call: construction raises
        return [given, node.get("_args_")]
    return bound.arguments.get(name)


def _made(node: Any, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (dotted key, node) of all nodes in ``node`` with a ``_target_``, outer ones first."""
    if isinstance(node, dict) and "_target_" in node:
        yield key, node
    for name, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from _made(value, f"{key}.{name}" if key else str(name))
