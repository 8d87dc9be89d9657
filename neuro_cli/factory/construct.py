"""Construction of objects from plain configs, in the notation of Hydra: ``_target_``, ``_args_``, ``_partial_``.

Arguments are always plain lists, dicts and values: whatever ``_convert_`` says, no user's class meets a container of OmegaConf.

Not by ``hydra.utils.instantiate``, for what was seen with Hydra 1.3.8:
- Its list of refused targets lets ``shutil.copy``, ``webbrowser.open`` and ``sys.exit`` run, and 1.3.2 has no list. Here the
  modules of Python that a config may name are listed. Hydra 1.4 has such a list of its callers, so this file can go when 1.4 is
  the oldest version that neuro allows.
- Ranks, peers and workers make objects without Hydra, which would add 0.11 s to the start of each.
- OmegaConf makes a node of each value: 1.6 s for a list of 20,000 numbers, 0.01 s here.
- Values are resolved again, so a text with ``${`` of a resolved config would change its meaning.
- An error has several lines, and its key is one that a user cannot type: ``inner.list[1]``.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from neuro_cli.core.messages.did_you_mean import closest

TARGET, ARGUMENTS = "_target_", "_args_"
MISSING = "???"  # Hydra's mark of a value that the user has to give
# modules of Python with classes for plain values; others start programs, run text or end the process
VALUES = ("collections", "datetime", "decimal", "fractions", "functools", "math", "operator", "pathlib", "random", "re")
PARTIAL, RECURSIVE = "_partial_", "_recursive_"
NOTATION = (TARGET, ARGUMENTS, "_convert_", PARTIAL)


class ConstructionError(Exception):
    """Failure to make the ``target`` of the node at ``key`` (dotted, empty for the outermost); its cause says why."""

    def __init__(self, key: str, target: Any) -> None:
        super().__init__(f"{key}: {target}")
        self.key, self.target = key, target


def construct(node: dict[str, Any]) -> Any:
    """Return the object of a ``node`` with a ``_target_``, after all nested ones. Raises ConstructionError."""
    return _constructed(node, "")


def located(path: str) -> Any:
    """Return the object at a dotted path, to construct, imported so far as needed. An attribute comes before a module.

    Raises what the import raises, and AttributeError, ModuleNotFoundError or ValueError for a path that leads nowhere. Not
    ``pkgutil.resolve_name``, whose order is another: torchvision.models.googlenet is a function and a module.
    """
    return _walk(path)[-1]


def _walk(path: str) -> list[Any]:
    """Return the object at each step of a dotted path, from its first module to the object that it names."""
    first, *parts = path.split(".")
    if not all((first, *parts)):
        raise ValueError(f"{path!r} is no dotted path")
    steps: list[Any] = [import_module(first)]
    for place, part in enumerate(parts, 1):
        if isinstance(steps[-1], ModuleType) and not hasattr(steps[-1], part):
            steps.append(_submodule(steps[-1], ".".join((first, *parts[:place]))))
        else:
            steps.append(getattr(steps[-1], part))
    return steps


def _submodule(module: ModuleType, name: str) -> ModuleType:
    """Import the module ``name`` inside of ``module``. Raises ModuleNotFoundError with the nearest names of ``module``."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        part = name.rpartition(".")[2]
        close = closest(part, [known for known in dir(module) if not known.startswith("_")])
        hint = f"; did you mean {' or '.join(close)}?" * bool(close)
        raise ModuleNotFoundError(f"{module.__name__} has no {part}{hint}", name=name) from None


def _constructed(node: Any, key: str, takes: int = 0) -> Any:
    """Return ``node`` with objects in place of its targets, and with copies of its lists and dicts.

    ``takes`` > 0: its objects are called with so many arguments; what needs them is not called here.
    """
    if isinstance(node, list | tuple):
        return [_constructed(value, f"{key}.{place}".lstrip("."), takes) for place, value in enumerate(node)]
    if not isinstance(node, dict):
        return node
    try:
        if TARGET in node:
            return _called(node, key, takes)
    except ConstructionError:
        raise
    except Exception as error:  # a user's constructor may raise anything
        raise ConstructionError(key, node.get(TARGET)) from error
    return {name: _constructed(value, f"{key}.{name}".lstrip("."), takes) for name, value in node.items()}


def _called(node: dict[str, Any], key: str, takes: int) -> Any:
    target, deferred = _target(node[TARGET]), node.get(PARTIAL, False)
    counts = getattr(target, "functions", None)  # numbers of arguments, by the name of what is called with them
    counts = counts if isinstance(counts, Mapping) else {}  # a user's class may mean something else by it
    if not isinstance(deferred, bool):
        raise TypeError(f"{PARTIAL} must be true or false, not {deferred!r}")
    if RECURSIVE in node:
        raise TypeError(f"{RECURSIVE} is not allowed: objects below a {TARGET} are always made")
    given: dict[str, Any] = {}
    for name, value in node.items():
        if name in (TARGET, "_convert_", PARTIAL) or (deferred and value == MISSING):
            continue
        if isinstance(value, str) and value == MISSING:
            raise ValueError(f"{name} is missing: give it a value")
        given[name] = _constructed(value, f"{key}.{name}".lstrip("."), counts.get(name, 0))
    arguments = given.pop(ARGUMENTS, [])
    if not isinstance(arguments, list):
        raise TypeError(f"{ARGUMENTS} must be a list, not {arguments!r}")
    deferred = deferred or (takes > 0 and PARTIAL not in node and _waits(target, takes, arguments, given))
    return partial(target, *arguments, **given) if deferred else target(*arguments, **given)


def _waits(target: Callable[..., Any], count: int, arguments: list[Any], given: dict[str, Any]) -> bool:
    """Return whether a call lacks arguments and ``count`` more make it complete."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # some compiled functions have none
        return False
    return not _fits(signature, arguments, given) and _fits(signature, [*arguments, *[None] * count], given)


def _fits(signature: inspect.Signature, arguments: list[Any], given: dict[str, Any]) -> bool:
    try:
        signature.bind(*arguments, **given)
    except TypeError:
        return False
    return True


def _target(name: Any) -> Callable[..., Any]:
    """Return the class or function of a ``_target_``. Raises TypeError for one that may run a program or a text."""
    *passed, target = _walk(name) if isinstance(name, str) else [name]
    if not callable(target):
        raise TypeError(f"expected a class or a function, got {type(target).__name__}")
    # the modules on its path count too: wandb replaces sys.exit by a function of its own
    modules = [module.__name__ for module in passed if isinstance(module, ModuleType)]
    for home in {module.partition(".")[0] for module in (*modules, str(getattr(target, "__module__", None) or name))}:
        makes_values = home in VALUES or (home == "builtins" and isinstance(target, type))
        if home in sys.stdlib_module_names and not makes_values:
            raise TypeError(f"of Python's own modules a config may name classes of {', '.join(VALUES)} only")
    return target
