"""Checks of lists in a benchmark's config."""

from typing import Any

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError


def filled_list(key: str, values: Any) -> list[Any]:
    """Return ``values`` if it is a list with an element. Raises ConfigError."""
    if not isinstance(values, list) or not values:
        raise ConfigError(key, values, "must be a non-empty list, for example [1,2]")
    return values


def integers(key: str, values: Any, low: int = 1, high: int | None = None) -> list[int]:
    """Return the integers of a non-empty list, each from ``low`` to ``high``. Raises ConfigError."""
    return [integer(key, value, low, high) for value in filled_list(key, values)]
