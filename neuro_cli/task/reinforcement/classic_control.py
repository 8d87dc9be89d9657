"""CartPole, Pendulum and Acrobot of gymnasium stepped together by numpy, with the bits of gymnasium's own Python.

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


def _acrobot(plain: Any, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    torques = np.array(plain.AVAIL_TORQUE)[actions]
    half, step = plain.dt / 2.0, plain.dt
    one = _acrobot_rates(plain, states, torques)
    two = _acrobot_rates(plain, states + half * one, torques)
    three = _acrobot_rates(plain, states + half * two, torques)
    four = _acrobot_rates(plain, states + step * three, torques)
    after = states + step / 6.0 * (one + 2 * two + 2 * three + four)
    angles, speeds = after[:, :2], after[:, 2:]
    diff = np.pi - -np.pi
    while (far := angles > np.pi).any():
        angles[far] -= diff
    while (far := angles < -np.pi).any():
        angles[far] += diff
    most = np.array([plain.MAX_VEL_1, plain.MAX_VEL_2])
    speeds[:] = np.clip(speeds, -most, most)
    first, second = angles.T
    over = -np.cos(first) - np.cos(second + first) > 1.0
    seen = np.stack([np.cos(first), np.sin(first), np.cos(second), np.sin(second), *speeds.T], axis=1)
    return after, seen.astype(np.float32), np.where(over, 0.0, -1.0), over


def _acrobot_rates(plain: Any, states: np.ndarray, torques: np.ndarray) -> np.ndarray:
    """Return the derivatives (n, 4) of ``states`` by the equations of Sutton and Barto's book."""
    m1, m2, l1, lc1, lc2 = (
        plain.LINK_MASS_1,
        plain.LINK_MASS_2,
        plain.LINK_LENGTH_1,
        plain.LINK_COM_POS_1,
        plain.LINK_COM_POS_2,
    )
    inertia, g = plain.LINK_MOI, 9.8
    theta1, theta2, speed1, speed2 = states.T
    cosine, sine = np.cos(theta2), np.sin(theta2)
    d1 = m1 * lc1**2 + m2 * (l1**2 + lc2**2 + 2 * l1 * lc2 * cosine) + inertia + inertia
    d2 = m2 * (lc2**2 + l1 * lc2 * cosine) + inertia
    phi2 = m2 * lc2 * g * np.cos(theta1 + theta2 - np.pi / 2.0)
    phi1 = (
        -m2 * l1 * lc2 * _squares(speed2) * sine
        - 2 * m2 * l1 * lc2 * speed2 * speed1 * sine
        + (m1 * lc1 + m2 * l1) * g * np.cos(theta1 - np.pi / 2)
        + phi2
    )
    turn2 = (torques + d2 / d1 * phi1 - m2 * l1 * lc2 * _squares(speed1) * sine - phi2) / (
        m2 * lc2**2 + inertia - _squares(d2) / d1
    )
    turn1 = -(d2 * turn2 + phi1) / d1
    return np.stack([speed1, speed2, turn1, turn2], axis=1)


def _squares(values: np.ndarray) -> np.ndarray:
    """Return squares as gymnasium takes them, number by number: in a thousandth of all cases numpy's of an array differ."""
    return np.array([value**2 for value in values], values.dtype)


# class in gymnasium.envs.classic_control: what a step of it does
RULES: dict[str, Rule] = {
    "cartpole.CartPoleEnv": _cartpole,
    "pendulum.PendulumEnv": _pendulum,
    "acrobot.AcrobotEnv": _acrobot,
}


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
        self.totals, self.penalties, self._steps = np.zeros(size), np.zeros(size), np.zeros(size, np.int64)

    def expect(self, seeds: np.ndarray) -> None: ...

    def begin(self, slot: int, seed: int) -> np.ndarray:
        first = np.asarray(self._environment.reset(seed=seed)[0])
        self._states[slot] = self._plain.state
        self.totals[slot], self._steps[slot] = 0.0, 0
        return first

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        states, raw[:], rewards, over = self._rule(self._plain, self._states[slots], np.asarray(actions))
        self._states[slots] = states
        self.totals[slots] += rewards
        self.penalties[slots] = np.where(over, np.minimum(rewards, 0.0), 0.0)
        self._steps[slots] += 1
        over = over | (self._steps[slots] >= self._limit) | ~np.isfinite(self.totals[slots])
        ended: list[int] = np.flatnonzero(over).tolist()
        return ended

    def close(self) -> None:
        self._environment.close()
