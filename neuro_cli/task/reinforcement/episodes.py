"""Plays episodes of many policies in many environments that are stepped together.

An environment that has ended an episode begins the next that is left; when none is left it drops out of the batch. What
happens in an episode depends on its seed and its policy only, not on what runs beside it.

Legend: J episodes, n environments that run, I numbers of an observation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuro_cli.core.lazy import LazyModule
from neuro_cli.task.reinforcement.environment import EnvironmentFactory, Spaces
from neuro_cli.task.reinforcement.policies import Policies

kernels = LazyModule("neuro_cli.task.reinforcement.policy_kernels")


@dataclass(frozen=True)
class Normaliser:
    """What policies see of an observation: (x - mean) * inverse, cut off at ``clip``; ``mean`` and ``inverse`` (I,) float32."""

    mean: np.ndarray
    inverse: np.ndarray
    clip: float


@dataclass(frozen=True)
class EpisodeSchedule:
    """Episode j has ``seeds[j]`` and is the ``places[j]``-th of policy ``policies[j]``, all (J,) int64."""

    seeds: np.ndarray
    policies: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class EpisodeOutcome:
    """``returns`` (J,) float64, NaN where a policy gave no number; ``steps`` (J,) int64.

    ``sums`` (J, 2 I) float64: of z, then of z**2, over the observations that were acted on; (J, 0) without a normaliser.
    """

    returns: np.ndarray
    steps: np.ndarray
    sums: np.ndarray


class EnvironmentPool:
    """At most ``size`` environments of a kind, made when they are needed. ``anew``: make one for every episode."""

    def __init__(self, maker: EnvironmentFactory, spaces: Spaces, size: int, anew: bool) -> None:
        self.maker, self.spaces, self.size, self.anew = maker, spaces, size, anew
        self._environments: list[Any] = []

    def _first(self, count: int) -> list[Any]:
        while len(self._environments) < count:
            self._environments.append(self.maker.make())
        return self._environments[:count]

    def _begin(self, environment: Any, seed: int) -> tuple[Any, np.ndarray]:
        """An environment at the beginning of the episode of ``seed``, and its first observation (I,)."""
        if self.anew:
            environment.close()
            environment = self.maker.make()
        return environment, np.ravel(environment.reset(seed=seed)[0])

    def play(self, plan: EpisodeSchedule, policies: Policies, normaliser: Normaliser | None) -> EpisodeOutcome:
        """Play all episodes of ``plan``."""
        total, inputs = len(plan.seeds), self.spaces.inputs
        outcome = EpisodeOutcome(
            np.zeros(total), np.zeros(total, np.int64), np.zeros((total, 2 * inputs if normaliser is not None else 0))
        )
        norm = normaliser or Normaliser(np.zeros(0, np.float32), np.zeros(0, np.float32), 0.0)
        count = min(self.size, total)
        running = self._first(count)
        raw, seen = np.empty((count, inputs), np.float32), np.empty((count, inputs), np.float32)
        episode = np.arange(count)
        for row in range(count):
            running[row], raw[row] = self._begin(running[row], int(plan.seeds[row]))
        following, returns = count, [0.0] * count
        while count:
            now = episode[:count]
            kernels.meet(
                raw[:count], now, norm.mean, norm.inverse, np.float32(norm.clip), outcome.steps, outcome.sums, seen[:count]
            )
            outputs = policies.act(seen[:count], plan.policies[now], plan.places[now])
            actions, good = self.actions(outputs)
            failed = () if good else np.flatnonzero(~np.isfinite(outputs).all(axis=1))
            for row in range(count - 1, -1, -1):  # backwards: the row that fills a gap has had its turn
                if row in failed:
                    returns[row], over = float("nan"), True
                else:
                    observation, reward, terminated, truncated, _ = running[row].step(actions[row])
                    returns[row] += reward
                    over = terminated or truncated
                if not over:
                    raw[row] = observation if observation.ndim == 1 else observation.ravel()
                    continue
                outcome.returns[episode[row]] = returns[row]
                if following < total:
                    running[row], raw[row] = self._begin(running[row], int(plan.seeds[following]))
                    episode[row], returns[row] = following, 0.0
                    following += 1
                else:
                    count -= 1
                    for line in (running, returns):
                        line[row], line[count] = line[count], line[row]
                    raw[row], episode[row] = raw[count], episode[count]
        self._environments[: len(running)] = running
        return outcome

    def actions(self, outputs: np.ndarray) -> tuple[Any, bool]:
        """An action for every row of ``outputs`` (n, O), and whether all outputs are numbers."""
        spaces = self.spaces
        if spaces.actions:
            choices = np.empty(len(outputs), np.int64)
            good = kernels.choose(outputs, spaces.first, choices)
            return choices.tolist(), bool(good)
        vectors = np.empty(outputs.shape, np.float32)
        good = kernels.bound(outputs, spaces.low, spaces.high, vectors)
        return vectors.astype(spaces.dtype, copy=False), bool(good)

    def close(self) -> None:
        while self._environments:
            self._environments.pop().close()
