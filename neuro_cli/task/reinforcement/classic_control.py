"""CartPole and Pendulum of gymnasium stepped together by numpy, with the bits of gymnasium's own Python.

The operations are those of gymnasium's ``step``, in its order and precision, on the states of all environments. An environment of
gymnasium itself begins every episode.

Legend: n environments that are stepped, S numbers of a state.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from neuro_cli.task.reinforcement.wrappers import unwrapped

# states (n, S), actions (n,) or (n, 1) -> next states, observations (n, ..) float32, rewards (n,), whether the episode ends (n,)
Rule = Callable[[Any, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


def _cartpole(plain: Any, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    x, x_dot, theta, theta_dot = states.T
    force = np.where(actions == 1, plain.force_mag, -plain.force_mag)
    cosine, sine = np.cos(theta), np.sin(theta)
    temp = (force + plain.polemass_length * np.square(theta_dot) * sine) / plain.total_mass
    turn = (plain.gravity * sine - cosine * temp) / (
        plain.length * (4.0 / 3.0 - plain.masspole * np.square(cosine) / plain.total_mass)
    )
    push = temp - plain.polemass_length * turn * cosine / plain.total_mass
    x_dot_next, theta_dot_next = x_dot + plain.tau * push, theta_dot + plain.tau * turn
    explicit = plain.kinematics_integrator == "euler"
    x = x + plain.tau * (x_dot if explicit else x_dot_next)
    theta = theta + plain.tau * (theta_dot if explicit else theta_dot_next)
    after = np.stack([x, x_dot_next, theta, theta_dot_next], axis=1)
    fallen = ~((np.abs(x) <= plain.x_threshold) & (np.abs(theta) <= plain.theta_threshold_radians))
    rewards = np.where(fallen, -1.0, 0.0) if plain._sutton_barto_reward else np.ones(len(x))
    return after, after.astype(np.float32), rewards, fallen


def _pendulum(plain: Any, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    theta, speed = states.T
    torque = np.clip(actions, -plain.max_torque, plain.max_torque)[:, 0]
    angle = ((theta + np.pi) % (2 * np.pi)) - np.pi
    costs = _squares(angle) + 0.1 * _squares(speed) + 0.001 * _squares(torque)
    speed = speed + (3 * plain.g / (2 * plain.l) * np.sin(theta) + 3.0 / (plain.m * plain.l**2) * torque) * plain.dt
    speed = np.clip(speed, -plain.max_speed, plain.max_speed)
    theta = theta + speed * plain.dt
    seen = np.stack([np.cos(theta), np.sin(theta), speed], axis=1).astype(np.float32)
    return np.stack([theta, speed], axis=1), seen, -costs, np.zeros(len(theta), bool)


def _squares(values: np.ndarray) -> np.ndarray:
    """Return squares as gymnasium takes them, number by number: in a thousandth of all cases numpy's of an array differ."""
    return np.array([value**2 for value in values], values.dtype)


# class in gymnasium.envs.classic_control: what a step of it does
RULES: dict[str, Rule] = {"cartpole.CartPoleEnv": _cartpole, "pendulum.PendulumEnv": _pendulum}


def rule_of(environment: Any) -> Rule | None:
    """Return the rule of an environment of ``gymnasium.make``; None for another one, or one that is wrapped or draws pictures."""
    kind = type(environment.unwrapped)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("gymnasium.envs.classic_control.")
    plain = unwrapped(environment)[0] is environment.unwrapped
    served = name in RULES and plain and environment.unwrapped.render_mode is None
    return RULES[name] if served else None


class ClassicSimulator:
    """Simulator with ``size`` slots of ``environment``, which has the ``rule``."""

    def __init__(self, environment: Any, rule: Rule, size: int) -> None:
        self._environment, self._plain, self._rule = environment, environment.unwrapped, rule
        self._limit = environment.spec.max_episode_steps
        environment.reset(seed=0)
        self._states = np.zeros((size, len(self._plain.state)))
        self._totals, self._steps = np.zeros(size), np.zeros(size, np.int64)

    def expect(self, seeds: np.ndarray) -> None: ...

    def begin(self, slot: int, seed: int) -> np.ndarray:
        first = np.asarray(self._environment.reset(seed=seed)[0])
        self._states[slot] = self._plain.state
        self._totals[slot], self._steps[slot] = 0.0, 0
        return first

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        states, raw[:], rewards, over = self._rule(self._plain, self._states[slots], np.asarray(actions))
        self._states[slots] = states
        self._totals[slots] += rewards
        self._steps[slots] += 1
        over = over | (self._steps[slots] >= self._limit) | ~np.isfinite(self._totals[slots])
        ended: list[int] = np.flatnonzero(over).tolist()
        return ended

    def total(self, slot: int) -> float:
        return float(self._totals[slot])

    def close(self) -> None:
        self._environment.close()
