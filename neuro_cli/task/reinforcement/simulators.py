"""Simulators, which step the environments of an episode loop together.

gymnasium's own Python steps one environment after the other; :mod:`mujoco_batch` and :mod:`classic_control` step the
environments that they know together, with the same bits. :mod:`envpool_simulator` takes other implementations of them,
with other numbers.

Legend: n environments that are stepped, I numbers of an observation.
"""

import logging
from collections.abc import Sequence
from contextlib import closing
from math import isfinite
from typing import Any, Protocol

import numpy as np

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.reinforcement.classic_control import ClassicSimulator, rule_of
from neuro_cli.task.reinforcement.environment import EnvironmentFactory
from neuro_cli.task.reinforcement.envpool_simulator import EnvPoolSimulator
from neuro_cli.task.reinforcement.mujoco_batch import MujocoSimulator, unserved
from neuro_cli.task.reinforcement.wrappers import unwrapped

log = logging.getLogger(__name__)

ENDLESS = 1_000_000  # most steps of an episode without a limit
SIMULATORS = ("auto", "gymnasium", "direct", "envpool")
EPISODES, STEPS = 4, 40  # episodes and steps of the comparison with gymnasium


class Simulator(Protocol):
    """Environments in slots 0, 1, ... below a size, with one episode at a time in each.

    ``totals``: sums of the rewards of the present episodes, by slot. ``penalties``: last rewards, if below 0, of the episodes
    that the environment, no limit, ended; else 0.
    """

    @property
    def totals(self) -> Sequence[float] | np.ndarray: ...

    @property
    def penalties(self) -> Sequence[float] | np.ndarray: ...

    def expect(self, seeds: np.ndarray) -> None:
        """Announce the seeds (J,) of the episodes that begin from now on, in this order."""

    def begin(self, slot: int, seed: int) -> np.ndarray:
        """Begin the episode of ``seed`` and return its first observation (I,)."""

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        """Step ``slots`` (n,) by ``actions``, write observations to ``raw`` (n, I), and return rows that ended, ascending.

        An episode also ends if the sum of its rewards is not finite.
        """

    def close(self) -> None: ...


class GymnasiumSimulator:
    """Environments of gymnasium in ``size`` slots, created at first use. ``fresh``: create one for every episode.

    Steps go past the wrappers of :func:`unwrapped`, whose limit of steps is counted here.
    """

    def __init__(self, maker: EnvironmentFactory, size: int, fresh: bool) -> None:
        self._maker, self._fresh = maker, fresh
        self._environments: list[Any] = [None] * size
        self._steps: list[Any] = [None] * size  # methods
        self.totals, self.penalties = [0.0] * size, [0.0] * size
        self._left, self._limits = [0] * size, [0] * size  # steps of an episode

    def expect(self, seeds: np.ndarray) -> None: ...

    def begin(self, slot: int, seed: int) -> np.ndarray:
        if self._fresh:
            self._close(slot)
        if self._environments[slot] is None:
            self._environments[slot] = self._maker.make()
            inner, self._limits[slot] = unwrapped(self._environments[slot])
            self._steps[slot] = inner.step
        self.totals[slot], self._left[slot] = 0.0, self._limits[slot]
        return np.ravel(self._environments[slot].reset(seed=seed)[0])

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        over, steps, totals, left = [], self._steps, self.totals, self._left
        penalties = self.penalties
        for row, (slot, action) in enumerate(zip(slots.tolist(), actions, strict=True)):
            observation, reward, terminated, truncated, _ = steps[slot](action)
            reward = float(reward)  # a float16 or float32 reward would make the total one with numpy 2
            total = totals[slot] + reward
            totals[slot] = total
            penalties[slot] = min(reward, 0.0) if terminated else 0.0
            raw[row] = observation if getattr(observation, "ndim", 0) == 1 else np.ravel(observation)
            left[slot] -= 1
            if terminated or truncated or not left[slot] or not isfinite(total):
                over.append(row)
            elif left[slot] == -ENDLESS:
                allowed = f"{self._maker.identifier} did not end an episode in {ENDLESS:,} steps, so a limit is needed"
                raise ConfigError("task.max_steps", self._maker.max_steps, allowed)
        return over

    def close(self) -> None:
        for slot in range(len(self._environments)):
            self._close(slot)

    def _close(self, slot: int) -> None:
        environment, self._environments[slot] = self._environments[slot], None
        if environment is not None:
            environment.close()


def simulator_of(maker: EnvironmentFactory, size: int, fresh: bool, choice: str) -> Simulator:
    """Return a simulator of ``size`` slots. Raises ConfigError: ``direct`` does not serve what ``maker`` makes."""
    if choice == "envpool":
        return EnvPoolSimulator(maker, size)
    if fresh or choice == "gymnasium":
        if choice == "direct":
            raise ConfigError("task.simulator", choice, "with task.anew=true only auto or gymnasium")
        return GymnasiumSimulator(maker, size, fresh)
    environment = maker.make()
    rule = rule_of(environment)
    reason = None if rule else unserved(environment)
    if reason is None:
        simulator = ClassicSimulator(environment, rule, size) if rule else MujocoSimulator(environment, size)
        if agrees(maker, simulator):
            log.info("%s: stepped together by %s", maker.identifier, "numpy" if rule else "mujoco.batch")
            return simulator
        reason = "gymnasium's own steps give other numbers"
    environment.close()
    if choice == "direct":
        raise ConfigError("task.simulator", choice, f"{reason}; auto or gymnasium step it by gymnasium")
    log.info("%s: stepped by gymnasium: %s", maker.identifier, reason)
    return GymnasiumSimulator(maker, size, fresh)


def agrees(maker: EnvironmentFactory, simulator: Simulator) -> bool:
    """Return whether ``simulator`` has the bits of an environment by ``maker``, in episodes of random actions.

    Its rules are those of gymnasium's private code, which another release may change.
    """
    with closing(maker.make()) as environment:
        space, rng, slots = environment.action_space, np.random.default_rng(0), np.zeros(1, np.int64)
        for seed in range(EPISODES):
            raw, total = np.ravel(environment.reset(seed=seed)[0])[None].astype(np.float64), 0.0
            if not np.array_equal(simulator.begin(0, seed), raw[0]):
                return False
            for _ in range(STEPS):
                action = rng.integers(space.n) if hasattr(space, "n") else rng.uniform(space.low, space.high).astype(space.dtype)
                seen, reward, terminated, truncated, _ = environment.step(action)
                total, over = total + float(reward), bool(terminated or truncated)
                penalty = min(float(reward), 0.0) if terminated else 0.0
                ended = bool(simulator.step(slots, np.array([action]), raw))
                if not np.array_equal(raw[0], seen) or (simulator.totals[0], simulator.penalties[0], ended) != (
                    total,
                    penalty,
                    over,
                ):
                    return False
                if over:
                    break
    return True
