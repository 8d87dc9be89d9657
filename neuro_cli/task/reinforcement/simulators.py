"""Slots of environments that an episode loop steps together, with one simulator chosen for all of them.

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
    """Environments in slots 0, 1, ... below a size; each plays one episode at a time."""

    def expect(self, seeds: np.ndarray) -> None:
        """Announce the seeds (J,) of the episodes that begin from now on, in this order."""

    def begin(self, slot: int, seed: int) -> np.ndarray:
        """Begin the episode of ``seed``; its first observation (I,)."""

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        """Step ``slots`` (n,) by ``actions`` and write their observations to ``raw`` (n, I); rows that ended, ascending.

        An episode ends too where the sum of its rewards is no finite number.
        """

    def total(self, slot: int) -> float:
        """Sum of the rewards of the episode in ``slot``."""

    def close(self) -> None: ...


class GymnasiumSimulator:
    """Environments of gymnasium, created when they are needed. ``anew``: create one for every episode."""

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
            # in the type of the rewards: a sum of float32 stays one; one of float16 would stand still at 2,048
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
    made = maker.make()
    reason = unserved(made)
    if reason is None:
        log.info("%s: stepped together by mujoco.batch", maker.identifier)
        return MujocoSimulator(made, size)
    made.close()
    if choice == "direct":
        raise ConfigError("task.simulator", choice, f"{reason}; auto or gymnasium step it by gymnasium")
    log.info("%s: stepped by gymnasium: %s", maker.identifier, reason)
    return GymnasiumSimulator(maker, anew)
