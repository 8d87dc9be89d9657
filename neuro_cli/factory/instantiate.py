"""Makes the options that a config chooses, and says which targets are ours."""

import inspect
import re
from typing import Any

from neuro_cli.core.errors import ConfigError, UserError, nearest
from neuro_cli.core.removed import refuse_removed
from neuro_cli.factory.construct import TARGET, ConstructionError, construct, located
from neuro_cli.factory.made import Made, is_made, made_by_script

OPTIONS = tuple(
    f"neuro_cli.{part}."
    for part in ("task", "model", "sampler", "algo", "distribution", "fabric", "logger", "election", "selection")
)
OURS = (*OPTIONS, "neuro_cli.core.schedule.", "torch.optim.", "torch.nn.", "torchvision.models.")
# arguments of our classes that are objects
_OBJECTS = ("optimizer", "_schedule")


def value_of(config: dict[str, Any], key: str) -> Any:
    """The value of a dotted key. Raises UserError when it is not there."""
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            raise UserError(f"{key}: it is missing in the config")
        node = node[part]
    return node


def make(config: dict[str, Any], group: str, expected: type) -> Any:
    """The object of a group, or a copy of the one that a script gave. Raises UserError with what its constructor said."""
    node = config.get(group)
    if isinstance(node, Made):
        return expect(node.object(), config, group, expected)
    if not isinstance(node, dict) or TARGET not in node:
        raise ConfigError(group, node, "must be a config with a _target_")
    if is_made(node):
        raise made_by_script([group], "resume", "run")
    for name, value in node.items():
        plain = value is None or isinstance(value, int | float | str | list)  # a script gives objects
        if (
            is_ours(str(node[TARGET]))
            and name.endswith(_OBJECTS)
            and (plain or (isinstance(value, dict) and TARGET not in value))
        ):
            raise ConfigError(f"{group}.{name}", value, "must be keys with a _target_")
    refuse_removed(str(node[TARGET]))
    try:
        made = construct(node)
    except ConstructionError as error:
        raise _misfit(error, group) from error
    except SystemExit as ended:  # its code would be that of a command that did what it was asked for
        raise ConfigError(
            f"{group}._target_", node["_target_"], f"it ended the process (SystemExit: {ended.code or 0})"
        ) from ended
    return expect(made, config, group, expected)


def expect(made: Any, config: dict[str, Any], group: str, expected: type) -> Any:
    """``made``, the object of a group, which must be of a class. Raises ConfigError."""
    if isinstance(made, expected):
        return made
    kind = f"must make a {expected.__module__}.{expected.__name__}, not {type(made).__name__}"
    raise ConfigError(f"{group}._target_", config[group]["_target_"], kind)


def _misfit(error: ConstructionError, group: str) -> UserError:
    """What the constructor said, under the key of the ``_target_`` that failed."""
    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, UserError):
        cause = cause.__cause__
    if isinstance(cause, UserError):
        return cause
    key = ".".join(part for part in (group, error.key, TARGET) if part)
    reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    return ConfigError(key, error.target, reason + _near_argument(error.target, reason))


def _near_argument(target: Any, reason: str) -> str:
    """A clause that names the nearest arguments of ``target`` if ``reason`` says that it has not the one given."""
    unknown = re.search(r"unexpected keyword argument '(\w+)'", reason) if isinstance(target, str) else None
    return f"; {nearest(unknown[1], inspect.signature(located(target)).parameters)}" if unknown else ""


def is_ours(target: str, ours: tuple[str, ...] = OURS) -> bool:
    """Whether a ``_target_`` is an option of ours or a class of torch, not only by its name: dots lead from any module to any."""
    if not target.startswith(ours):
        return False
    found = found_by(target)
    if found is None:
        return True  # it does not exist: making it says so
    home = f"{found.__module__}.{found.__qualname__}" if callable(found) else ""
    return home.startswith(ours) and (isinstance(found, type) or _builds_network(found))


def found_by(target: str) -> Any:
    """The class or function of a ``_target_``; None where there is none."""
    try:
        return located(target)
    except Exception:
        return None


def _builds_network(found: Any) -> bool:
    """Whether a function is one of torchvision's that make a network."""
    import torchvision

    name = getattr(found, "__name__", "")
    return name in torchvision.models.list_models() and torchvision.models.get_model_builder(name) is found
