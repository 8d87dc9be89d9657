"""Root keys of ``conf/bench.yaml``; each kind of benchmark declares the keys of its section, which the comments there explain."""

from dataclasses import dataclass
from typing import Any

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.config import Check, RunConfig, Section, bounded, key, section


@dataclass(frozen=True, kw_only=True)
class BenchConfig(RunConfig):
    """Config of a benchmark: the root keys of a training run, the rounds and the samplers."""

    precision: str = key()  # neuro bench layer measures half precision too, which no training has
    repeats: int = key(bounded(1))
    samplers: dict[str, Any] = key()

    def own(self, kind: type[Section], name: str) -> Section:
        """Return the bench's section ``name`` with the keys of ``kind``. Raises UserError."""
        return section(kind, self.plain.get(name), f"{name}.")


def filled_list(key: str, values: Any) -> list[Any]:
    """Return ``values`` if it is a list with an element. Raises ConfigError."""
    if not isinstance(values, list) or not values:
        raise ConfigError(key, values, "must be a non-empty list, for example [1,2]")
    return values


def integers(low: int = 1, high: int | None = None, one: bool = False) -> Check:
    """Return the check of a bench's list of integers, each from ``low`` to ``high``; ``one``: an integer without a list too."""

    def check(key: str, values: Any) -> list[int]:
        listed = [values] if one and not isinstance(values, list) else filled_list(key, values)
        return [integer(key, value, low, high) for value in listed]

    return check
