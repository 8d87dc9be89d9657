"""Construction of the options that a config chooses, and the rule for targets that are ours."""

import inspect
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.factory.construct import TARGET, ConstructionError, construct, located
from neuro_cli.factory.script_objects import Made, is_made, made_by_script

Kind = TypeVar("Kind")

OPTIONS = tuple(
    f"neuro_cli.{part}."
    for part in ("task", "model", "sampler", "algo", "distribution", "fabric", "logger", "election", "selection")
)
OURS = (
    *OPTIONS,
    "neuro_cli.activation_noise.estimator.",
    "neuro_cli.core.schedule.",
    "neuro_cli.library.fitness.",
    "torch.optim.",
    "torch.nn.",
    "torchvision.models.",
)
# endings of arguments of our classes that take objects
_OBJECTS = ("optimizer", "_schedule")


def value_of(config: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key of a config. Raises UserError when it is missing."""
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            raise UserError(f"{key}: it is missing in the config")
        node = node[part]
    return node


def make(config: Mapping[str, Any], group: str, expected: type[Kind]) -> Kind:
    """Instantiate the object of a group, or copy the one that a script gave. Raises UserError with its constructor's message."""
    node = config.get(group)
    if isinstance(node, Made):
        return expect(node.object(), config, group, expected)
    if not isinstance(node, dict) or TARGET not in node:
        raise ConfigError(group, node, "must be a config with a _target_")
    if is_made(node):
        raise made_by_script([group], "resume", "run")
    for name, value in node.items():
        plain = value is None or isinstance(value, int | float | str | list)  # scripts give objects
        if (
            is_ours(str(node[TARGET]))
            and name.endswith(_OBJECTS)
            and (plain or (isinstance(value, dict) and TARGET not in value))
        ):
            raise ConfigError(f"{group}.{name}", value, "must be keys with a _target_")
    try:
        option = construct(node)
    except ConstructionError as error:
        raise _misfit(error, group) from error
    except SystemExit as ended:  # exit code 0 would mean that the command succeeded
        raise ConfigError(
            f"{group}._target_", node["_target_"], f"it ended the process (SystemExit: {ended.code or 0})"
        ) from ended
    return expect(option, config, group, expected)


def expect(option: Any, config: Mapping[str, Any], group: str, expected: type[Kind]) -> Kind:
    """Expect ``option``, the instantiated object of a group, to be of a class, and return it. Raises ConfigError."""
    if isinstance(option, expected):
        return option
    kind = f"must make a {expected.__module__}.{expected.__name__}, not {type(option).__name__}"
    raise ConfigError(f"{group}._target_", config[group]["_target_"], kind)


def _misfit(error: ConstructionError, group: str) -> UserError:
    """Return the constructor's error under the key of the ``_target_`` that failed."""
    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, UserError):
        cause = cause.__cause__
    if isinstance(cause, UserError):
        return cause
    key = ".".join(part for part in (group, error.key, TARGET) if part)
    reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    if "required positional argument" in reason and inspect.isfunction(found_by(str(error.target))):
        reason += f"; +{key.removesuffix(TARGET)}_partial_=true gives the function itself"
    reason = re.sub(r"\. Did you mean '\w+'\?$", "", reason)  # Python 3.13 names one argument, the clause all that are near
    return ConfigError(key, error.target, reason + _near_argument(error.target, reason))


def _near_argument(target: Any, reason: str) -> str:
    """Return a clause with the nearest arguments of ``target`` if ``reason`` says that it lacks the given one."""
    unknown = re.search(r"unexpected keyword argument '(\w+)'", reason) if isinstance(target, str) else None
    return f"; {nearest(unknown[1], inspect.signature(located(target)).parameters)}" if unknown else ""


def is_ours(target: str, ours: tuple[str, ...] = OURS) -> bool:
    """Return whether a ``_target_`` is an option of ours or a class of torch. A name is no proof: modules import others."""
    if not target.startswith(ours):
        return False
    target_object = found_by(target)
    if target_object is None:
        return True  # making it reports that it does not exist
    home = f"{target_object.__module__}.{target_object.__qualname__}" if callable(target_object) else ""
    return home.startswith(ours) and (isinstance(target_object, type) or _builds_network(target_object))


def found_by(target: str) -> Any:
    """Return the class or function of a ``_target_``; None if it does not exist."""
    try:
        return located(target)
    except Exception:
        return None


def _builds_network(function: Any) -> bool:
    """Return whether a function is one of torchvision's that make a network."""
    import torchvision

    name = getattr(function, "__name__", "")
    return name in torchvision.models.list_models() and torchvision.models.get_model_builder(name) is function
