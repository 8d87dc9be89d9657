"""Checks of lists in a benchmark's config."""

from typing import Any

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.config import Check


def filled_list(key: str, values: Any) -> list[Any]:
    """Return ``values`` if it is a list with an element. Raises ConfigError."""
    if not isinstance(values, list) or not values:
        raise ConfigError(key, values, "must be a non-empty list, for example [1,2]")
    return values


def integers(low: int = 1, high: int | None = None, one: bool = False) -> Check:
    """Return the check of a non-empty list of integers, each from ``low`` to ``high``; ``one``: an integer without a list too."""

    def check(key: str, values: Any) -> list[int]:
        listed = [values] if one and not isinstance(values, list) else filled_list(key, values)
        return [integer(key, value, low, high) for value in listed]

    return check
