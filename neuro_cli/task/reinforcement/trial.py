"""Trial that shows whether an environment repeats, that is, whether ``reset(seed)`` alone decides an episode.

A run relies on that: the number of ranks decides which slot, rank or peer plays an episode, and after which others. The trial
plays seed a, then b, then a again in one environment, then a in a new one, with the same actions. It is a function of the
environment, so that all ranks and peers decide alike.
"""

import logging
import random
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.seeds import Generators
from neuro_cli.task.reinforcement.actions import actions_of
from neuro_cli.task.reinforcement.environment import EnvironmentFactory, Spaces, reason

log = logging.getLogger(__name__)

ONE, OTHER = 1, 2  # the two seeds
SHORT, LONG = 12, 60  # most steps of the compared episodes, and of the one between them


class Step(NamedTuple):
    """Result of an action, as float64; the first of an episode is its reset, with a reward of 0."""

    observation: np.ndarray
    reward: np.ndarray
    over: bool


def settled(maker: EnvironmentFactory, spaces: Spaces, asked: bool | None) -> bool:
    """Return whether every episode needs a new environment; ``asked``: ``task.anew``, None: if it helps.

    The log says what was chosen and why, and warns if a run will not repeat. Raises ConfigError for an environment that fails.
    """
    name = f"task.id={maker.identifier}"
    outputs = np.random.default_rng(ONE).standard_normal((LONG, spaces.outputs)).astype(np.float32)
    actions = list(actions_of(spaces, outputs)[0])

    def afresh() -> list[Step]:
        with closing(maker.make()) as new:
            return episode(maker, new, spaces, ONE, actions[:SHORT])

    with closing(maker.make()) as used:
        first = episode(maker, used, spaces, ONE, actions[:SHORT])
        episode(maker, used, spaces, OTHER, actions)
        later = difference(first, episode(maker, used, spaces, ONE, actions[:SHORT]))
        fresh = difference(first, afresh())
    if fresh is not None:
        source = global_source(afresh)
        why = f"it draws from {source}, which no seed of an episode reaches" if source else "reset(seed=...) does not decide it"
        log.warning("%s: the run will not repeat: two new environments with one seed differ in the %s: %s", name, fresh, why)
    elif later is not None and asked is None:
        log.info("%s: after another episode it differs in the %s: every episode has a new one, as by task.anew=true", name, later)
        return True
    elif later is not None and not asked:
        log.warning(
            "%s: task.anew=false: after another episode it differs in the %s, so scores depend on task.environments and on"
            " ranks; task.anew=null makes every episode a new environment", name, later,
        )  # fmt: skip
    return bool(asked)


def episode(maker: EnvironmentFactory, environment: Any, spaces: Spaces, seed: int, actions: list[Any]) -> list[Step]:
    """Return what ``environment`` gives for ``seed`` and ``actions``, up to its end. Raises ConfigError if it fails."""
    call = "reset(seed=...)"
    try:
        steps = [Step(np.array(environment.reset(seed=seed)[0], np.float64), np.zeros(()), False)]
        call = "step(action)"
        while len(steps) <= len(actions) and not steps[-1].over:
            observation, reward, terminated, truncated, _ = environment.step(actions[len(steps) - 1])
            over = bool(terminated or truncated)
            steps.append(Step(np.array(observation, np.float64), np.array(reward, np.float64), over))
    except UserError:
        raise
    except Exception as error:  # an environment may fail in any way
        raise ConfigError("task.id", maker.identifier, f"its {call} fails: {reason(error, maker.identifier)}") from error
    for step in steps:
        if step.observation.size != spaces.inputs:
            allowed = f"an observation has the shape {step.observation.shape}, its observation_space {spaces.shape}"
            raise ConfigError("task.id", maker.identifier, allowed)
        if step.reward.ndim:
            allowed = f"a reward has the shape {step.reward.shape}: task.reward_weights=[...] makes a number of it"
            raise ConfigError("task.id", maker.identifier, allowed)
    return steps


def difference(one: list[Step], other: list[Step]) -> str | None:
    """Return where two episodes first differ, None if they are the same."""
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        for what in ("observation", "reward", "over"):
            if not np.array_equal(getattr(a, what), getattr(b, what), equal_nan=True):
                return f"{'end' if what == 'over' else what} at step {number}"
    return None


def global_source(afresh: Callable[[], list[Step]]) -> str | None:
    """Return the process-wide generator that an environment draws from: reset alike, it gives two equal episodes."""
    before = Generators()
    sources: dict[str, Callable[[int], Any]] = {"np.random": np.random.seed, "Python's random": random.seed}
    try:
        for source, seed in sources.items():
            episodes = [seed(0) or afresh() for _ in range(2)]
            if difference(*episodes) is None:
                return source
    finally:
        before.restore()
    return None
