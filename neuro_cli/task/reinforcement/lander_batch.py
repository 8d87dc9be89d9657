"""LunarLanders of gymnasium stepped together by compiled loops on Box2D's own worlds, with the bits of gymnasium's steps.

An environment of gymnasium begins every episode; from then on :mod:`lander_kernels` reads and writes the bodies where Box2D
keeps them. That they are where it looks is compared with what Box2D's Python says, and an episode with the steps of
:class:`lean_lander.LeanLander`, before any is played.
"""

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuro_cli.core.lazy import LazyModule
from neuro_cli.task.reinforcement.environment import EnvironmentFactory
from neuro_cli.task.reinforcement.lean_lander import LeanLander
from neuro_cli.task.reinforcement.policies import ChainPolicies

kernels = LazyModule("neuro_cli.task.reinforcement.lander_kernels")

BLOCK = 1024  # random numbers that are drawn at once; a step takes two
TRIED = 200  # steps at most of the episode that is compared


@dataclass(frozen=True)
class Rows:
    """Row r: a slot, the episode that it plays, its policy, its observation ``raw`` (n, 8), and what the policy sees."""

    slots: np.ndarray
    episode: np.ndarray
    policies: np.ndarray
    raw: np.ndarray
    seen: np.ndarray


class LanderSimulator:
    """``size`` slots of the environments that ``maker`` makes, each one that :func:`lean_lander.lean_lander` serves."""

    def __init__(self, maker: EnvironmentFactory, size: int) -> None:
        from gymnasium.envs.box2d import lunar_lander as constants

        self._maker = maker
        self._made: dict[int, Any] = {}
        scale = constants.SCALE
        self._scale, self._legs_down = scale, constants.LEG_DOWN / scale
        self._scales = (constants.VIEWPORT_W / scale / 2, constants.VIEWPORT_H / scale / 2, float(constants.FPS))
        main, side = float(constants.MAIN_ENGINE_POWER), float(constants.SIDE_ENGINE_POWER)
        place, height = constants.MAIN_ENGINE_Y_LOCATION / scale, constants.SIDE_ENGINE_HEIGHT / scale
        self._engines = (main, place, side, float(constants.SIDE_ENGINE_AWAY), height, 17.0, float(scale))
        self._functions = functions()
        self._objects = np.zeros((size, kernels.OBJECTS), np.int64)
        self._scatter, self._cursors = np.zeros((size, BLOCK)), np.full(size, BLOCK)
        # methods of b2ContactListener: two destructors, which nothing calls, begin, end, before and after solving
        made = (kernels.contact_begins, kernels.contact_ends, kernels.contact_solved, kernels.contact_solved)
        self._methods = np.array([0, 0, *(method.address for method in made)], np.int64)
        self._listeners = np.zeros((size, kernels.LISTENER_SIZE // 8), np.int64)
        self._floors, self._shaping, self._totals = np.zeros(size), np.zeros(size), np.zeros(size)
        self._steps, self._limit = np.zeros(size, np.int64), 0
        self._step = step_of(1.0 / constants.FPS)
        self._memory = np.zeros(kernels.LANES * kernels.LANE_SIZE // 8, np.int64)
        self._lanes = np.zeros(kernels.ROWS * kernels.LANES, np.float32)

    def begin(self, slot: int, seed: int) -> np.ndarray:
        if slot not in self._made:
            self._made[slot] = self._maker.make()
            self._limit = self._made[slot].spec.max_episode_steps
        first: np.ndarray = self._made[slot].reset(seed=seed)[0]
        plain = self._made[slot].unwrapped
        self._objects[slot] = objects_of(plain)
        self._cursors[slot] = BLOCK
        self._listen(slot, plain)
        self._floors[slot], self._shaping[slot] = plain.helipad_y + self._legs_down, plain.prev_shaping
        self._totals[slot], self._steps[slot] = 0.0, 0
        return first

    def _listen(self, slot: int, plain: Any) -> None:
        """Have the world of a slot tell compiled code of its contacts, where gymnasium's listener in Python was told."""
        left, right = plain.legs
        row = self._listeners[slot]
        row[:4] = self._methods.ctypes.data, int(plain.lander.this), int(left.this), int(right.this)
        row[4:].view(np.int32)[:3] = plain.game_over, left.ground_contact, right.ground_contact
        kernels.listen(self._functions, int(plain.world.this), row.ctypes.data)

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        actions, over = np.asarray(actions), np.empty(len(slots), np.bool_)
        self._draw(slots)
        kernels.advance(slots, actions, *self._worlds())
        kernels.judge(slots, actions, *self._marks(), raw, over)
        ended: list[int] = np.flatnonzero(over).tolist()
        return ended

    def play(
        self, rows: Rows, policies: ChainPolicies, normaliser: tuple[Any, ...], record: tuple[np.ndarray, np.ndarray]
    ) -> tuple[list[int], np.ndarray | None]:
        """Play on until episodes have ended: these rows. Or until outputs are no numbers: none, and the outputs.

        ``normaliser`` and ``record``: as :func:`policy_kernels.meet` takes them.
        """
        count = len(rows.slots)
        chain, over = policies.chain, np.zeros(count, np.bool_)
        outputs, choices = np.empty((count, 4), np.float32), np.empty(count, np.int64)
        why = kernels.EXHAUSTED
        while why == kernels.EXHAUSTED:
            self._draw(rows.slots)
            why = kernels.play(
                rows.slots, rows.episode, rows.policies, rows.raw, rows.seen, outputs, choices, over, normaliser, record, chain,
                self._worlds(), self._marks(),
            )  # fmt: skip
        ended: list[int] = np.flatnonzero(over).tolist()
        return (ended, None) if why == kernels.ENDED else ([], outputs)

    def _worlds(self) -> tuple[Any, ...]:
        """Arguments of :func:`lander_kernels.advance` beside slots and actions."""
        return (
            self._objects, self._functions, self._scatter, self._cursors, self._engines,
            self._step.ctypes.data, self._memory.ctypes.data, self._lanes,
        )  # fmt: skip

    def _marks(self) -> tuple[Any, ...]:
        """Arguments of :func:`lander_kernels.judge` beside slots, actions and what it writes."""
        return (
            self._objects, self._listeners.ctypes.data, self._floors, self._scales, self._shaping, self._totals, self._steps,
            self._limit,
        )  # fmt: skip

    def _draw(self, slots: np.ndarray) -> None:
        """Draw random numbers for the slots that have used theirs up."""
        for slot in slots[self._cursors[slots] == BLOCK].tolist():
            self._scatter[slot] = self._made[slot].unwrapped.np_random.uniform(-1.0, 1.0, BLOCK) / self._scale
            self._cursors[slot] = 0

    def total(self, slot: int) -> float:
        return float(self._totals[slot])

    def close(self) -> None:
        while self._made:
            self._made.popitem()[1].close()


def functions() -> np.ndarray:
    """Addresses of :data:`lander_kernels.FUNCTIONS` in the library of Box2D and in those that it uses."""
    import Box2D

    library = ctypes.CDLL(sys.modules[f"{Box2D.__name__}._Box2D"].__file__)
    found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in kernels.FUNCTIONS]
    return np.array(found, np.int64)


def step_of(seconds: float) -> np.ndarray:
    """A b2SolverData for steps that follow one of the same length, without its positions and velocities."""
    made = np.zeros(kernels.STEP_SIZE, np.uint8)
    long = np.float32(seconds)
    made[:12].view(np.float32)[:] = long, 1 / long, 1 / long * long
    made[12:20].view(np.int32)[:] = kernels.ITERATIONS, kernels.PLACINGS
    made[20] = True  # start from the impulses of the step before
    return made


def objects_of(plain: Any) -> list[int]:
    """Addresses of what Box2D keeps for an environment, as :mod:`lander_kernels` orders them."""
    left, right = plain.legs
    kept = (plain.world, plain.world.contactManager, right, plain.lander, left, plain.moon, right.joint, left.joint)
    return [int(part.this) for part in kept]


def unlike(made: Any) -> str | None:
    """Reason why the objects of ``made`` are not where :mod:`lander_kernels` looks for them; None if they are."""
    import Box2D

    if Box2D.__version__ != kernels.BOX2D:  # contacts are nowhere told to Python, so that theirs cannot be compared
        return f"Box2D {Box2D.__version__} is none that was looked into, which is {kernels.BOX2D}"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "addresses of 64 bits, the lowest byte first, are needed"
    made.reset(seed=0)
    plain = made.unwrapped
    where = objects_of(plain)
    for body, address in ((plain.legs[1], kernels.RIGHT), (plain.lander, kernels.LANDER), (plain.legs[0], kernels.LEFT)):
        told: list[tuple[int, Any]] = [
            (kernels.PLACE, body.position),
            (kernels.CENTRE, body.worldCenter),
            (kernels.LOCAL_CENTRE, body.localCenter),
            (kernels.SPEED, body.linearVelocity),
            (kernels.ANGLE, [body.angle]),
            (kernels.SPIN, [body.angularVelocity]),
            (kernels.SINE, [body.transform.R.s]),
            (kernels.COSINE, [body.transform.R.c]),
            (kernels.INVERSE_MASS, [np.float32(1) / np.float32(body.mass)]),
        ]
        if not _holds(where[address], told):
            return "Box2D keeps its bodies in another way"
    for leg, address in ((plain.legs[1], kernels.RIGHT_JOINT), (plain.legs[0], kernels.LEFT_JOINT)):
        joint = leg.joint
        told = [
            (kernels.MOTOR_SPEED, [joint.motorSpeed]),
            (kernels.LOWER, [joint.lowerLimit]),
            (kernels.UPPER, [joint.upperLimit]),
        ]
        bodies = [ctypes.c_int64.from_address(where[address] + offset).value for offset in (kernels.BODY_A, kernels.BODY_B)]
        if not _holds(where[address], told) or bodies != [int(plain.lander.this), int(leg.this)]:
            return "Box2D keeps its joints in another way"
    if where[kernels.MANAGER] - where[kernels.WORLD] != kernels.MANAGER_PLACE:
        return "Box2D keeps its world in another way"
    return None


def _holds(address: int, told: list[tuple[int, Any]]) -> bool:
    """Tell whether an object holds numbers at their offsets."""
    for offset, values in told:
        numbers = [ctypes.c_float.from_address(address + offset + 4 * i).value for i in range(len(values))]
        if not np.array_equal(np.array(numbers, np.float32), np.array(list(values), np.float32)):
            return False
    return True


def unserved(maker: EnvironmentFactory) -> str | None:
    """Reason why :class:`LanderSimulator` cannot step what ``maker`` makes, a plain LunarLander; None if it can."""
    made = maker.make()
    reason = unlike(made)
    if reason is not None:
        made.close()
        return reason
    try:
        together = LanderSimulator(maker, 1)
    except AttributeError as error:
        made.close()
        return f"Box2D has no function of this name: {error}"
    alone, slots, raw = LeanLander(made), np.zeros(1, np.int64), np.empty((1, 8))
    wanted, raw[0] = alone.reset(seed=1)[0], together.begin(0, 1)
    total, same, over = 0.0, np.array_equal(raw[0], wanted), False
    for number in range(TRIED):
        action = (0, 2, 1, 0, 2, 3)[number % 6]
        wanted, reward, ended, late, _ = alone.step(action)
        total, over = total + reward, ended or late
        same &= together.step(slots, [action], raw) == ([0] if over else [])
        same &= np.array_equal(raw[0], wanted) and together.total(0) == total
        if over or not same:
            break
    alone.close()
    together.close()
    return None if same else "an episode goes otherwise than by gymnasium"
