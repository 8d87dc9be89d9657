"""Checks of config values: each names the key, the value and what is allowed."""

import math
from numbers import Integral, Real
from typing import Any

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.cores import usable_cores

PRECISION_NAMES = ("float32", "bfloat16")  # types of members' passes and of stored weights
THREADS, THREADS_A_CORE = 1024, 64  # most threads of a process: each takes memory, and more finish no sooner


def integer(key: str, value: Any, low: int, high: int | None = None) -> int:
    """Check that ``value`` is an integer in [low, high], NumPy's too, and return it as int. Raises ConfigError."""
    allowed = f"must be an integer >= {low}" if high is None else f"must be an integer from {low} to {high}"
    made = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if made is None or made < low or (high is not None and made > high):
        whole = isinstance(value, float) and value.is_integer() and value >= low and (high is None or value <= high)
        raise ConfigError(key, value, f"{allowed}: write {int(value)}" if whole else allowed)
    return made


def thread_count(key: str, value: Any) -> int:
    """Check that ``value`` is a number of threads that this machine can start, and return it. Raises ConfigError."""
    cores = usable_cores()
    most = min(THREADS, THREADS_A_CORE * cores)
    if isinstance(value, int) and value > most:
        raise ConfigError(key, value, f"must be an integer from 1 to {most} on a machine of {cores} cores")
    return integer(key, value, 1)


def number(
    key: str,
    value: Any,
    *,
    above: float | None = None,
    low: float | None = None,
    high: float | None = None,
    below: float | None = None,
) -> float:
    """Check that ``value`` is a finite number, > above, >= low, <= high, < below, and return it as float. Raises ConfigError."""
    limits = ((">", above), (">=", low), ("<=", high), ("<", below))
    bounds = [f"{sign} {bound:g}" for sign, bound in limits if bound is not None]
    allowed = "must be a number" + (" " + " and ".join(bounds) if bounds else "")
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigError(key, value, allowed)
    made = float(value)
    outside = (
        (above is not None and made <= above)
        or (low is not None and made < low)
        or (high is not None and made > high)
        or (below is not None and made >= below)
    )
    if outside:
        raise ConfigError(key, value, allowed)
    return made


def number_or(key: str, value: Any, word: str, *, above: float) -> float | str:
    """Check that ``value`` is ``word``, or a finite float > above, and return it. Raises ConfigError."""
    if isinstance(value, str) and value != word:
        raise ConfigError(key, value, f"must be a number > {above:g}, or {word}")
    return value if value == word else number(key, value, above=above)


def boolean(key: str, value: Any) -> bool:
    """Check that ``value`` is true or false, and return it. Raises ConfigError."""
    if not isinstance(value, bool):
        raise ConfigError(key, value, "must be true or false")
    return value


def one_of(key: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Check that ``value`` is among ``allowed``, and return it. Raises ConfigError."""
    if value not in allowed:
        raise ConfigError(key, value, f"must be one of {', '.join(allowed)}")
    return str(value)
