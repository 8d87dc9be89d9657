"""Bodies of torch's Python functions, such as ``F.multi_head_attention_forward``, without their check for overrides.

A function of ``torch.nn.functional`` first asks whether a function mode is on and then hands itself over. Its body, run
with the mode on, hands over the operations it consists of.
"""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

WRITERS = frozenset(f"__{name}__" for name in (
    "setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "ipow", "imod", "iand", "ior", "ixor", "ilshift", "irshift",
))  # fmt: skip
CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


@cache
def body(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return ``function`` without its check; None where it has none."""
    if not isinstance(function, FunctionType) or not set(CHECKS) & set(function.__code__.co_names):
        return None
    unchecked = {**function.__globals__, **dict.fromkeys(CHECKS, _no)}
    result = FunctionType(function.__code__, unchecked, function.__name__, function.__defaults__, function.__closure__)
    result.__kwdefaults__ = function.__kwdefaults__
    return result


def overwrites(function: Callable[..., Any]) -> bool:
    """Return whether a function of torch overwrites its first argument, by its name."""
    name = getattr(function, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name in WRITERS


def _no(*_: Any) -> bool:
    return False
