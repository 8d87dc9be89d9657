"""Wrappers of gymnasium: the user's, conversions of spaces to Boxes, and harmless ones that faster steps may skip.

A policy takes a Box of observations and returns a vector of outputs. :func:`boxed` converts other spaces.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.task.dotted import located

KEY = "task.wrappers"

Wrapper = Callable[[Any], Any]  # takes an environment and returns another


class Wrapping(NamedTuple):
    """Wrappers of an environment, the innermost first, then stacked frames and weights of rewards."""

    wrappers: Sequence[Wrapper] = ()
    frame_stack: int = 1
    reward_weights: Sequence[float] | None = None

    def __bool__(self) -> bool:
        return self != BARE

    def around(self, environment: Any) -> Any:
        """Return ``environment`` in its wrappers. Raises ConfigError."""
        for place, wrapper in enumerate(self.wrappers):
            environment = _wrapped(f"{KEY}.{place}", wrapper, environment)
        if self.frame_stack > 1:
            from gymnasium.wrappers import FrameStackObservation

            environment = FrameStackObservation(environment, self.frame_stack)
        if self.reward_weights is not None:
            environment = _weighted(environment, np.asarray(self.reward_weights, np.float64))
        return boxed(environment)


BARE = Wrapping()


def wrappers_of(given: Any) -> tuple[Wrapper, ...]:
    """Return the wrappers of a list, some by their dotted names. Raises ConfigError."""
    values = [located(f"{KEY}.{place}", each) for place, each in enumerate(given)] if isinstance(given, list | tuple) else given
    return sequence(KEY, values, callable, "a list of package.Wrapper or {_target_: package.Wrapper, ...}")


def sequence(key: str, values: Any, fits: Callable[[Any], bool], allowed: str) -> tuple[Any, ...]:
    """Return ``values`` as a tuple if each ``fits``. Raises ConfigError."""
    if not isinstance(values, list | tuple) or not all(map(fits, values)):
        raise ConfigError(key, values, f"must be {allowed}")
    return tuple(values)


def _wrapped(key: str, wrapper: Wrapper, environment: Any) -> Any:
    import gymnasium

    try:
        result = wrapper(environment)
    except Exception as error:  # a user's wrapper may fail in any way
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ConfigError(key, _name(wrapper), f"it does not take this environment: {reason}") from error
    if not isinstance(result, gymnasium.Env):
        raise ConfigError(key, _name(wrapper), f"must return an environment, not {type(result).__name__}")
    return result


def _name(wrapper: Any) -> str:
    wrapper = getattr(wrapper, "func", wrapper)
    return str(getattr(wrapper, "__qualname__", wrapper))


def _weighted(environment: Any, weights: np.ndarray) -> Any:
    """Return ``environment`` with the sum of its vector of rewards times ``weights`` as its reward."""
    from gymnasium.wrappers import TransformReward

    def total(rewards: Any) -> float:
        if np.shape(rewards) != weights.shape:
            allowed = f"a reward has the shape {np.shape(rewards)}, so as many weights are needed"
            raise ConfigError("task.reward_weights", weights.tolist(), allowed)
        return float(np.dot(np.asarray(rewards, np.float64), weights))

    return TransformReward(environment, total)


def boxed(environment: Any) -> Any:
    """Return ``environment`` with Boxes of observations and actions, as far as gymnasium can flatten its spaces.

    Parts of a ``Dict`` are flattened by name: gymnasium's order hangs on how the space was written, and equal ones differ.
    Each number of a ``MultiDiscrete`` action is the place of its greatest output; ``MultiBinary`` is 1 for an output above 0.
    """
    from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
    from gymnasium.spaces.utils import flatten, flatten_space
    from gymnasium.wrappers import TransformAction, TransformObservation

    seen = environment.observation_space
    if isinstance(seen, Dict | Tuple | Discrete | MultiDiscrete | MultiBinary):
        parts = _by_name(seen)
        try:
            flat = flatten_space(parts)
        except NotImplementedError as error:  # a package's own kind of space
            raise UserError(f"{KEY}: {_parts_to_choose(seen)}") from error
        environment = TransformObservation(environment, lambda observation: flatten(parts, observation), flat)
    acts = environment.action_space
    if isinstance(acts, MultiDiscrete):
        return TransformAction(environment, _choices(acts), _any_outputs(int(acts.nvec.sum())))
    if isinstance(acts, MultiBinary):
        return TransformAction(environment, lambda row: (row > 0).astype(acts.dtype).reshape(acts.shape), _any_outputs(acts.n))
    if isinstance(acts, Box) and len(acts.shape) != 1:
        flat = Box(acts.low.ravel(), acts.high.ravel(), dtype=acts.dtype)
        return TransformAction(environment, lambda row: row.reshape(acts.shape), flat)
    return environment


def _parts_to_choose(seen: Any) -> str:
    """Say which parts of the observations ``seen`` gymnasium cannot flatten, and which wrapper leaves them out."""
    from gymnasium.spaces import Dict
    from gymnasium.spaces.utils import flatten_space

    named, bad = dict(seen.spaces) if isinstance(seen, Dict) else dict(enumerate(seen)), {}
    for name, part in named.items():
        try:
            flatten_space(part)
        except NotImplementedError:
            bad[name] = type(part).__name__
    text = f"gymnasium cannot flatten {', '.join(f'{name} ({kind})' for name, kind in bad.items())} of the observations: "
    kept = ", ".join(str(name) for name in sorted(named) if name not in bad)
    if not isinstance(seen, Dict) or not kept:
        return f"{text}add a wrapper that makes numbers of them"
    return f"{text}add {{_target_: gymnasium.wrappers.FilterObservation, filter_keys: [{kept}]}}, or another that makes a Box"


def _by_name(space: Any) -> Any:
    """Return ``space`` with the parts of each ``Dict`` in it ordered by name."""
    from gymnasium.spaces import Dict, Tuple

    if isinstance(space, Dict):
        return Dict([(name, _by_name(space[name])) for name in sorted(space)])
    return Tuple([_by_name(part) for part in space]) if isinstance(space, Tuple) else space


def _any_outputs(count: Any) -> Any:
    from gymnasium.spaces import Box

    return Box(-np.inf, np.inf, (int(np.prod(count)),), np.float32)


def _choices(acts: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map from outputs to an action of the ``MultiDiscrete`` space ``acts``."""
    ends = np.cumsum(acts.nvec.ravel())[:-1]

    def chosen(row: np.ndarray) -> np.ndarray:
        choices = np.array([part.argmax() for part in np.split(row, ends)], acts.dtype)
        return choices.reshape(acts.shape) + acts.start

    return chosen


def unwrapped(environment: Any) -> tuple[Any, int]:
    """Return ``environment`` without outer wrappers that change no number, and their limit of steps, 0 for none."""
    from gymnasium.wrappers import OrderEnforcing, TimeLimit

    limits = []
    while type(environment) in (OrderEnforcing, TimeLimit):
        if type(environment) is TimeLimit:
            limits.append(environment._max_episode_steps)
        environment = environment.env
    return environment, min(limits, default=0)
