"""MuJoCo environments of gymnasium stepped together by ``mujoco.batch``, with the bits of gymnasium's own Python.

One call steps all of them in C. Observations, rewards and ends are computed here for all at once, by gymnasium's operations in
its precision. An environment of gymnasium itself begins every episode.

Legend: n environments that are stepped, q and v the positions (n, nq) and velocities (n, nv), I numbers of an observation.
"""

import ctypes
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from neuro_cli.task.reinforcement.wrappers import unwrapped

log = logging.getLogger(__name__)

Healthy = Callable[[Any, np.ndarray, np.ndarray], np.ndarray]


def _hopper(environment: Any, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    low, high = environment._healthy_state_range
    state = np.hstack([q, v])[:, 2:]
    return np.logical_and(low < state, state < high).all(axis=1) & _walker(environment, q, v)


def _walker(environment: Any, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    (least, most), (low, high) = environment._healthy_z_range, environment._healthy_angle_range
    return (least < q[:, 1]) & (q[:, 1] < most) & (low < q[:, 2]) & (q[:, 2] < high)


def _ant(environment: Any, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    least, most = environment._healthy_z_range
    finite = np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
    return finite & (least <= q[:, 2]) & (q[:, 2] <= most)


# class in gymnasium.envs.mujoco: rule for healthy (None: always, without a reward), and largest velocity in an observation
RULES: dict[str, tuple[Healthy | None, float | None]] = {
    "half_cheetah_v5.HalfCheetahEnv": (None, None),
    "hopper_v5.HopperEnv": (_hopper, 10.0),
    "walker2d_v5.Walker2dEnv": (_walker, 10.0),
    "swimmer_v5.SwimmerEnv": (None, None),
    "ant_v5.AntEnv": (_ant, None),
}


def rule_of(environment: Any) -> str:
    """Return the name in :data:`RULES` of an environment's class without wrappers; any other class gives another text."""
    kind = type(environment)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("gymnasium.envs.mujoco.")


def unserved(environment: Any) -> str | None:
    """Return why :class:`MujocoSimulator` cannot step an ``environment`` of ``gymnasium.make``; None if it can."""
    plain, inner = environment.unwrapped, unwrapped(environment)[0]
    if rule_of(plain) not in RULES:
        names = ", ".join(name.split(".")[1].removesuffix("Env") for name in RULES)
        return f"only {names} (v5), CartPole, Pendulum and Acrobot are stepped many at once"
    if inner is not plain:
        return f"{type(inner).__name__} wraps it"
    if getattr(plain, "_contact_cost_weight", 0) or getattr(plain, "_include_cfrc_ext_in_observation", False):
        return "contact forces count; task.options.contact_cost_weight=0 and include_cfrc_ext_in_observation=false leave them out"
    if plain.render_mode is not None:
        return "it draws pictures"
    try:
        import mujoco.batch
    except ImportError:
        import mujoco

        return f"mujoco {mujoco.__version__} is installed, and mujoco.batch came with 4.0"
    return None


class MujocoSimulator:
    """Simulator with ``size`` slots of ``environment``, for which :func:`unserved` returned None."""

    def __init__(self, environment: Any, size: int) -> None:
        from mujoco import mjtDisableBit, mjtState
        from mujoco.batch import Batch

        self._environment, self._plain = environment, environment.unwrapped
        model = self._plain.model
        if model.ntree == 1:  # a single tree is one island: the search for islands takes time and changes no bit
            model.opt.disableflags |= int(mjtDisableBit.mjDSBL_ISLAND)
        self._healthy, self._fastest = RULES[rule_of(self._plain)]
        self._batch = Batch(model, size, nthread=1)
        self._state = int(mjtState.mjSTATE_INTEGRATION)
        self._q, self._v, self._controls = (self._batch.bind(name) for name in ("qpos", "qvel", "ctrl"))
        body = getattr(self._plain, "_main_body", None)  # Ant's position is its torso's, one substep late
        self._torso = None if body is None else self._batch.bind("xpos")[:, self._plain.data.body(body).id, 0]
        self._skipped = int(self._plain.observation_structure["skipped_qpos"])
        self._limit = environment.spec.max_episode_steps
        self._stopwatch = stopwatch()
        self._places, self.totals, self._steps = np.zeros(size), np.zeros(size), np.zeros(size, np.int64)
        self.penalties = np.zeros(size)

    def expect(self, seeds: np.ndarray) -> None: ...

    def begin(self, slot: int, seed: int) -> np.ndarray:
        from mujoco import mj_getState

        first = np.asarray(self._environment.reset(seed=seed)[0])
        data = self._plain.data
        mj_getState(self._plain.model, data, self._batch.state[slot], self._state)
        self._places[slot] = data.qpos[0] if self._torso is None else data.body(self._plain._main_body).xpos[0]
        self.totals[slot], self._steps[slot] = 0.0, 0
        return first

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        plain, actions = self._plain, np.asarray(actions)
        self._controls[slots] = actions
        with untimed(self._stopwatch):
            self._batch.step(np.sort(slots), nstep=plain.frame_skip)
        q, v = self._q[slots], self._v[slots]
        place = q[:, 0] if self._torso is None else self._torso[slots]
        rewards = plain._forward_reward_weight * ((place - self._places[slots]) / plain.dt)
        self._places[slots] = place
        self._steps[slots] += 1
        fallen = np.zeros(len(slots), np.bool_)
        if self._healthy is not None:
            healthy = self._healthy(plain, q, v)
            rewards = rewards + healthy * plain._healthy_reward
            if plain._terminate_when_unhealthy:
                fallen = ~healthy
        rewards = rewards - plain._ctrl_cost_weight * np.sum(np.square(actions), axis=1)
        self.totals[slots] += rewards
        self.penalties[slots] = np.where(fallen, np.minimum(rewards, 0.0), 0.0)
        over = fallen | (self._steps[slots] >= self._limit) | ~np.isfinite(self.totals[slots])
        split = q.shape[1] - self._skipped
        raw[:, :split] = q[:, self._skipped :]
        raw[:, split:] = v if self._fastest is None else np.clip(v, -self._fastest, self._fastest)
        ended: list[int] = np.flatnonzero(over).tolist()
        return ended

    def close(self) -> None:
        self._environment.close()


def stopwatch() -> Any:
    """Return a pointer to MuJoCo's ``mjcb_time``, which times each stage of a step; None without such a symbol."""
    import mujoco

    try:
        return ctypes.c_void_p.in_dll(ctypes.CDLL(mujoco._structs.__file__), "mjcb_time")
    except (AttributeError, OSError, ValueError) as error:
        log.info("mujoco times the stages of its steps, slower: %s", error)
        return None


@contextmanager
def untimed(pointer: Any) -> Iterator[None]:
    """Keep MuJoCo from reading the clock before and after every stage; ``pointer``: the result of :func:`stopwatch`."""
    if pointer is None:
        yield
        return
    clock, pointer.value = pointer.value, None
    try:
        yield
    finally:
        if clock is not None:  # else another thread took the clock first, and gives it back
            pointer.value = clock
