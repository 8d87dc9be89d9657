"""Simulators, which step the environments of an episode loop together.

gymnasium's own Python steps one environment after the other; :mod:`mujoco_batch` steps the MuJoCo environments that it
knows together, with the same bits. :mod:`envpool_simulator` takes other implementations of them, with other numbers.

Legend: n environments that are stepped, I numbers of an observation.
"""

import logging
from math import isfinite
from typing import Any, Protocol

import numpy as np

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.reinforcement.environment import EnvironmentFactory
from neuro_cli.task.reinforcement.envpool_simulator import EnvPoolSimulator
from neuro_cli.task.reinforcement.mujoco_batch import MujocoSimulator, unserved

log = logging.getLogger(__name__)

SIMULATORS = ("auto", "gymnasium", "direct", "envpool")


class Simulator(Protocol):
    """Environments in slots 0, 1, ... below a size, with one episode at a time in each."""

    def expect(self, seeds: np.ndarray) -> None:
        """Announce the seeds (J,) of the episodes that begin from now on, in this order."""

    def begin(self, slot: int, seed: int) -> np.ndarray:
        """Begin the episode of ``seed`` and return its first observation (I,)."""

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        """Step ``slots`` (n,) by ``actions``, write observations to ``raw`` (n, I), and return rows that ended, ascending.

        An episode also ends if the sum of its rewards is not finite.
        """

    def total(self, slot: int) -> float:
        """Return the sum of the rewards of the episode in ``slot``."""

    def close(self) -> None: ...


class GymnasiumSimulator:
    """Environments of gymnasium, created at first use. ``anew``: create one for every episode."""

    def __init__(self, maker: EnvironmentFactory, anew: bool) -> None:
        self._maker, self._anew = maker, anew
        self._environments: dict[int, Any] = {}
        self._totals: dict[int, Any] = {}

    def expect(self, seeds: np.ndarray) -> None: ...

    def begin(self, slot: int, seed: int) -> np.ndarray:
        if self._anew and slot in self._environments:
            self._environments.pop(slot).close()
        if slot not in self._environments:
            self._environments[slot] = self._maker.make()
        self._totals[slot] = 0.0
        return np.ravel(self._environments[slot].reset(seed=seed)[0])

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        over, totals, environments = [], self._totals, self._environments
        for row, slot in enumerate(slots.tolist()):
            observation, reward, terminated, truncated, _ = environments[slot].step(actions[row])
            # keep the rewards' type, as `total += reward` does; only a float16 sum is widened: it would stall at 2,048
            totals[slot] += float(reward) if type(reward) is np.float16 else reward
            raw[row] = np.asarray(observation).ravel()
            if terminated or truncated or not isfinite(totals[slot]):
                over.append(row)
        return over

    def total(self, slot: int) -> float:
        return float(self._totals[slot])

    def close(self) -> None:
        while self._environments:
            self._environments.popitem()[1].close()


def simulator_of(maker: EnvironmentFactory, size: int, anew: bool, choice: str) -> Simulator:
    """Return a simulator of ``size`` slots. Raises ConfigError: ``direct`` does not serve what ``maker`` makes."""
    if choice == "envpool":
        return EnvPoolSimulator(maker, size)
    if anew or choice == "gymnasium":
        if choice == "direct":
            raise ConfigError("task.simulator", choice, "with task.anew=true only auto or gymnasium")
        return GymnasiumSimulator(maker, anew)
    environment = maker.make()
    reason = unserved(environment)
    if reason is None:
        log.info("%s: stepped together by mujoco.batch", maker.identifier)
        return MujocoSimulator(environment, size)
    environment.close()
    if choice == "direct":
        raise ConfigError("task.simulator", choice, f"{reason}; auto or gymnasium step it by gymnasium")
    log.info("%s: stepped by gymnasium: %s", maker.identifier, reason)
    return GymnasiumSimulator(maker, anew)
