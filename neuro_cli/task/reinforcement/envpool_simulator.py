"""Environments of EnvPool, which are written in C++ and stepped in its own thread.

EnvPool seeds an environment when it is created and never again, and a second episode continues the same random stream. Here
each episode therefore gets a new environment, so that its seed alone decides it, whatever else runs. Creating a pool for
each episode would be slow: a pool holds the next episodes of the schedule, one environment each.

Legend: n environments that are stepped, I numbers of an observation.
"""

import warnings
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import closest
from neuro_cli.core.messages.install import install
from neuro_cli.task.reinforcement.environment import EnvironmentFactory, Spaces, spaces_of

# set here or by other keys of the task, so task.options must not have them
RESERVED = frozenset((
    "num_envs", "batch_size", "num_threads", "max_num_players", "thread_affinity_offset", "base_path", "seed", "env_seed",
    "gym_reset_return_info", "max_episode_steps", "reward_threshold",
))  # fmt: skip


class Place(NamedTuple):
    """Environment ``number`` of ``pool``, the first observation (I,) of its episode, and the seed of that episode."""

    pool: Any
    number: int
    first: np.ndarray
    seed: int


class EnvPoolSimulator:
    """EnvPool simulator of ``size`` slots, each with an environment of the kind that ``maker`` names."""

    def __init__(self, maker: EnvironmentFactory, size: int) -> None:
        self._maker, self._size = maker, size
        self._coming: deque[int] = deque()  # seeds of episodes without an environment yet
        self._ready: deque[Place] = deque()
        self._slots: dict[int, Place] = {}
        self.totals, self.penalties = np.zeros(size), np.zeros(size)

    def expect(self, seeds: np.ndarray) -> None:
        self.close()
        self._coming.extend(seeds.tolist())

    def begin(self, slot: int, seed: int) -> np.ndarray:
        if not self._ready:
            count = min(self._size, len(self._coming))
            self._ready.extend(places_of(self._maker, [self._coming.popleft() for _ in range(count)]))
        place = self._ready.popleft()
        assert place.seed == seed, "episodes begin in the order in which they are expected"
        self._slots[slot], self.totals[slot] = place, 0.0  # frees a pool that was the slot's alone
        return place.first

    def step(self, slots: np.ndarray, actions: Any, raw: np.ndarray) -> list[int]:
        over = np.zeros(len(slots), np.bool_)
        actions = np.asarray(actions)
        for pool, rows, numbers in self._by_pool(slots):
            observations, rewards, terminated, truncated, _ = pool.step(actions[rows], numbers)
            raw[rows] = observations.reshape(len(rows), -1)
            self.totals[slots[rows]] += rewards
            self.penalties[slots[rows]] = np.where(terminated, np.minimum(rewards, 0.0), 0.0)
            over[rows] = terminated | truncated
        over |= ~np.isfinite(self.totals[slots])
        ended: list[int] = np.flatnonzero(over).tolist()
        return ended

    def _by_pool(self, slots: np.ndarray) -> list[tuple[Any, list[int], np.ndarray]]:
        """Group ``slots`` (n,) by pool: the pool, its rows, and the numbers of their environments in it, int32."""
        places = [self._slots[slot] for slot in slots.tolist()]
        groups: dict[int, list[int]] = {}
        for row, place in enumerate(places):
            groups.setdefault(id(place.pool), []).append(row)
        return [
            (places[rows[0]].pool, rows, np.array([places[row].number for row in rows], np.int32)) for rows in groups.values()
        ]

    def close(self) -> None:
        """Forget all environments; a pool ends its thread when its last environment is forgotten."""
        self._coming.clear()
        self._ready.clear()
        self._slots.clear()


def places_of(maker: EnvironmentFactory, seeds: list[int]) -> list[Place]:
    """Create environments for the episodes of ``seeds``, in one pool."""
    limit = {} if maker.max_steps is None else {"max_episode_steps": maker.max_steps}
    numbers = np.array(seeds, np.uint32).view(np.int32).tolist()  # EnvPool takes the bits as int32
    pool = envpool().make(
        maker.identifier, env_type="gymnasium", num_envs=len(seeds), num_threads=1, seed=numbers, **limit, **maker.options
    )
    observations = pool.reset()[0].reshape(len(seeds), -1)
    return [Place(pool, number, observations[number], seed) for number, seed in enumerate(seeds)]


def envpool_spaces(maker: EnvironmentFactory) -> Spaces:
    """Look at the environment in EnvPool. Raises UserError: EnvPool is missing, or has no such environment or options."""
    # gymnasium's remark on the bounds that EnvPool gives, for every pool; no policy sees the bounds of observations
    warnings.filterwarnings("ignore", r".*Box (low|high)'s precision lowered", UserWarning)
    names = envpool().list_all_envs()
    if maker.identifier not in names:
        close = closest(maker.identifier, names)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ConfigError(
            "task.id", maker.identifier, f"EnvPool has no such environment{hint}; task.simulator=auto takes gymnasium's"
        )
    allowed = set(envpool().make_spec(maker.identifier).config._fields) - RESERVED
    for key, value in maker.options.items():
        if key not in allowed:
            raise ConfigError(f"task.options.{key}", value, f"no option of EnvPool's {maker.identifier}: {sorted(allowed)}")
    try:
        spec = envpool().make_spec(maker.identifier, **maker.options)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:200]
        raise ConfigError("task.options", maker.options, f"not taken by EnvPool's {maker.identifier}: {reason}") from error
    if spec.config.max_num_players != 1:
        raise ConfigError("task.id", maker.identifier, f"one policy plays, this has {spec.config.max_num_players} players")
    return spaces_of(maker.identifier, spec.observation_space, spec.action_space)


def envpool() -> Any:
    """Import EnvPool. Raises UserError: it is not installed."""
    try:
        import envpool as package
    except ImportError as error:
        raise UserError(f"task.simulator=envpool: envpool is not installed: {install('envpool')}") from error
    return package
