"""Root keys of a run that are numbers, with their ranges: checked by the command before it imports torch, and once by the run."""

from collections.abc import Callable, Mapping
from typing import Any

from neuro_cli.core.checks import boolean, integer, number, one_of, thread_count

LAYOUTS = ("shared_batch", "per_example")
PRECISION_NAMES = ("float32", "bfloat16")
BITS_32, BITS_64 = 2**32 - 1, 2**64 - 1

Check = Callable[[str, Any], Any]


def _whole(low: int, high: int | None = None) -> Check:
    return lambda key, value: integer(key, value, low, high)


def _or_none(check: Check) -> Check:
    return lambda key, value: None if value is None else check(key, value)


# in the order in which a run complains
CHECKS: dict[str, Check] = {
    "seed": _whole(0, BITS_64),
    "generations": _whole(1, BITS_32),
    "population": _whole(1, BITS_32),
    "batch_size": _whole(1),
    "checkpoint.best": boolean,
    "checkpoint.every": _whole(1),
    "checkpoint.keep": _whole(1),
    "evaluate.every": _whole(1),
    "layout": lambda key, value: one_of(key, value, LAYOUTS),
    "precision": lambda key, value: one_of(key, value, PRECISION_NAMES),
    "cuda_graphs": boolean,
    "threads": _or_none(thread_count),
    "time_limit": _or_none(lambda key, value: number(key, value, above=0.0)),
}


def check_early(config: Mapping[str, Any], but: frozenset[str] = frozenset()) -> None:
    """Check the keys of ``config`` that are there, but those in ``but`` and those that refer to others. Raises ConfigError."""
    for key, check in CHECKS.items():
        value = _value(config, key)
        if key not in but and value is not _ABSENT and not (isinstance(value, str) and "${" in value):
            check(key, value)


_ABSENT = object()


def _value(config: Mapping[str, Any], key: str) -> Any:
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return _ABSENT
        node = node[part]
    return node
