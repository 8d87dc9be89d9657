"""Wrappers of gymnasium that change no number: steps go past them, and their limit of steps is counted by who does so."""

from typing import Any


def unwrapped(environment: Any) -> tuple[Any, int]:
    """Return ``environment`` without its outermost wrappers of this kind, and their limit of steps, 0: none."""
    from gymnasium.wrappers import OrderEnforcing, TimeLimit

    limits = []
    while type(environment) in (OrderEnforcing, TimeLimit):
        if type(environment) is TimeLimit:
            limits.append(environment._max_episode_steps)
        environment = environment.env
    return environment, min(limits, default=0)


def only_harmless(environment: Any) -> bool:
    """Return whether ``environment`` has no other wrapper."""
    return unwrapped(environment)[0] is environment.unwrapped
