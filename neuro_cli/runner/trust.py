"""Which code a config may name that somebody else wrote: one saved in a run folder, or of a task that came over a network.

Making a class that a config names runs its code. The walk goes through the whole config, since ``instantiate`` makes
what is nested too.
"""

from collections.abc import Callable, Iterator
from typing import Any

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.runner.build import OURS, is_ours


def refuse_untrusted(config: dict[str, Any], trust: list[str], also: tuple[str, ...] = ()) -> None:
    """Raise UserError when ``config`` names a class that is not ours, torch's, below ``also`` or of a package in ``trust``."""

    def refusal(key: str, target: str) -> UserError | None:
        package = target.split(".")[0]
        if package in trust or is_ours(target, (*OURS, *also)):
            return None
        return UserError(f"{key}={target}: it runs code of {package}; say trust={package} if this run folder is yours")

    _refuse(config, refusal)


def refuse_foreign(config: dict[str, Any], what: str) -> None:
    """Raise ConfigError when ``config`` names a class that is neither ours nor torch's; ``what`` is made of it."""

    def refusal(key: str, target: str) -> UserError | None:
        return None if is_ours(target) else ConfigError(key, target, f"{what} are made of classes of neuro and torch only")

    _refuse(config, refusal)


def _refuse(config: dict[str, Any], refusal: Callable[[str, str], UserError | None]) -> None:
    for key, value in _leaves(config):
        # resolving it could make what the walk does not see; a config that was resolved has none
        if isinstance(value, str) and "${" in value:
            raise ConfigError(key, value, "an interpolation is not resolved here")
        if key.rpartition(".")[2] == "_target_" and (refused := refusal(key, str(value))):
            raise refused


def _leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything in ``node`` that is no dict and no list."""
    if not isinstance(node, dict | list):
        yield key, node
        return
    for name, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield from _leaves(value, f"{key}.{name}" if key else str(name))
