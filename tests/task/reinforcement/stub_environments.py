"""Small environments that behave as some of other packages do, registered by the import of this module."""

import random
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

STEPS = 8  # of an episode
CLOSED: list[str] = []  # classes of environments that were closed, in order


class Stub(gymnasium.Env):
    """Observations of three numbers, a reward of the action; subclasses change a thing each."""

    observation_space: Any = Box(-np.inf, np.inf, (3,))
    action_space: Any = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def step(self, action):
        self.steps += 1
        return self.seen(), self.reward(action), self.steps == STEPS, False, {}

    def seen(self) -> Any:
        return self.np_random.normal(size=3).astype(np.float32)

    def reward(self, action) -> Any:
        return float(action)

    def close(self):
        CLOSED.append(type(self).__name__)


class Traces(Stub):
    """The episodes that an environment has played show in the next."""

    def __init__(self):
        self.played = 0

    def reset(self, *, seed=None, options=None):
        self.played += 1
        return super().reset(seed=seed)

    def seen(self):
        return super().seen() + 0.25 * self.steps * self.played


class NumpyDraws(Stub):
    def seen(self):
        return np.random.normal(size=3).astype(np.float32)


class PythonDraws(Stub):
    def seen(self):
        return np.array([random.random()] * 3, np.float32)


class Unseeded(Stub):
    """A generator of its own that reset(seed) does not set."""

    def __init__(self):
        self.own = np.random.default_rng()

    def reward(self, action):
        return self.own.random()


class Offset(Stub):
    """One number far from 0, with a deviation of ``deviation``."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float64)

    def __init__(self, offset, deviation=1.0):
        self.shift = np.array([0.0, offset, 0.0])
        self.scale = np.array([1.0, deviation, 1.0])

    def seen(self):
        return self.np_random.normal(size=3) * self.scale + self.shift


class BadObservation(Stub):
    """``value`` in place 1 of the observation after ``at`` steps."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float64)

    def __init__(self, value, at=3):
        self.value, self.at = value, at

    def seen(self):
        made = super().seen().astype(np.float64)
        if self.steps == self.at:
            made[1] = self.value
        return made


class BadReward(Stub):
    """``value`` at step ``at``."""

    def __init__(self, value, at=3):
        self.value, self.at = value, at

    def reward(self, action):
        return self.value if self.steps == self.at else 0.5


class Unlucky(Stub):
    """NaN for choice 1 at the second step, so for some members."""

    def reward(self, action):
        return np.nan if self.steps == 2 and action else 1.0


class RewardVector(Stub):
    def reward(self, action):
        return np.array([1.0, -1.0], np.float32)


class HalfRewards(Stub):
    """Rewards of 2,047 and ones in float16, whose sum would stand still at 2,048."""

    def reward(self, action):
        return np.float16(2047.0 if self.steps == 1 else 1.0)


class SingleRewards(Stub):
    """Rewards of 2**24 and ones in float32, whose sum would stand still."""

    def reward(self, action):
        return np.float32(2.0**24 if self.steps == 1 else 1.0)


class Lists(Stub):
    def seen(self):
        return [float(value) for value in super().seen()]


class Shapeless(Stub):
    def seen(self):
        return super().seen()[:1]


class Broken(Stub):
    def __init__(self):
        raise AssertionError


class Falls(Stub):
    def reward(self, action):
        raise AttributeError("'MjModel' object has no attribute 'flex'")


class Taking(Stub):
    """Takes actions of ``space``, and refuses others."""

    TAKEN: list[Any] = []  # noqa: RUF012

    def __init__(self, low, high, dtype):
        self.action_space = Box(low, high, (2,), np.dtype(dtype).type)

    def reward(self, action):
        assert self.action_space.contains(action), f"{action!r} is outside of {self.action_space}"
        self.TAKEN.append(action.copy())
        return 0.0


class Spacious(Stub):
    """Observations and actions of any spaces, by their own seeds."""

    TAKEN: list[Any] = []  # noqa: RUF012

    def __init__(self, seen=None, acts=None):
        self.observation_space = self.observation_space if seen is None else seen
        self.action_space = self.action_space if acts is None else acts

    def reset(self, *, seed=None, options=None):
        self.observation_space.seed(seed)
        return super().reset(seed=seed)

    def seen(self):
        return self.observation_space.sample()

    def reward(self, action):
        assert self.action_space.contains(action), f"{action!r} is outside of {self.action_space}"
        self.TAKEN.append(action)
        return 1.0


class Endless(Stub):
    """Ends after 60 steps, or never; registered without a limit."""

    def __init__(self, steps=60):
        self.last = steps

    def step(self, action):
        observation, reward, _, truncated, more = super().step(action)
        return observation, reward, self.steps == self.last, truncated, more


gymnasium.register("Endless-v0", entry_point=Endless)

for kind in (
    Spacious, Stub, Traces, NumpyDraws, PythonDraws, Unseeded, Offset, BadObservation, BadReward, Unlucky, RewardVector,
    HalfRewards, SingleRewards, Lists, Shapeless, Broken, Falls, Taking,
):  # fmt: skip
    gymnasium.register(f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=50)
