"""Episodes of many policies, played in many environments that are stepped together.

An environment that ends an episode begins the next one of the schedule, or drops out of the batch after the last. An episode
depends only on its seed and its policy, not on the other environments; ``EnvironmentFactory`` has its step limit.

Legend: J episodes, n environments that run, I numbers of an observation.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite

import numpy as np

from neuro_cli.core.lazy import LazyModule
from neuro_cli.task.reinforcement.actions import actions_of
from neuro_cli.task.reinforcement.environment import EnvironmentFactory, Spaces
from neuro_cli.task.reinforcement.observations import Normaliser
from neuro_cli.task.reinforcement.policies import Policies
from neuro_cli.task.reinforcement.simulators import Simulator, simulator_of

kernels = LazyModule("neuro_cli.task.reinforcement.policy_kernels")


@dataclass(frozen=True)
class EpisodeSchedule:
    """Schedule of episodes: number j has ``seeds[j]`` and is the ``places[j]``-th of policy ``policies[j]``, all (J,) int64."""

    seeds: np.ndarray
    policies: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class EpisodeOutcome:
    """Outcome of episodes: ``returns`` (J,) float64, NaN after a number that is not finite; ``steps`` (J,) int64.

    ``sums`` (J, 2 I) float64: sums of z, then of z**2, over the observations that were acted on; (J, 0) without a normaliser.
    ``faults``: a sentence for each episode in which the environment gave an unusable number.
    """

    returns: np.ndarray
    steps: np.ndarray
    sums: np.ndarray
    faults: list[str] = field(default_factory=list)

    @cached_property
    def penalties(self) -> np.ndarray:
        """Rewards below 0 (J,) with which the environment ended episodes, else 0; they are in the returns, too."""
        return np.zeros(len(self.returns))


class EnvironmentPool:
    """Pool of at most ``size`` equal environments, created at first use. ``fresh``: create one for every episode.

    ``simulator``: one of :data:`simulators.SIMULATORS`.
    """

    def __init__(self, maker: EnvironmentFactory, spaces: Spaces, size: int, fresh: bool, simulator: str) -> None:
        self.maker, self.spaces, self.size, self.fresh, self.choice = maker, spaces, size, fresh, simulator
        self._simulator: Simulator | None = None

    @property
    def simulator(self) -> Simulator:
        if self._simulator is None:
            self._simulator = simulator_of(self.maker, self.size, self.fresh, self.choice)
        return self._simulator

    def play(self, plan: EpisodeSchedule, policies: Policies, normaliser: Normaliser | None) -> EpisodeOutcome:
        """Play all episodes of ``plan`` in the pool."""
        total, inputs = len(plan.seeds), self.spaces.inputs
        outcome = EpisodeOutcome(
            np.zeros(total), np.zeros(total, np.int64), np.zeros((total, 2 * inputs if normaliser is not None else 0))
        )
        normalise = (normaliser or Normaliser(np.zeros(0, np.float32), np.zeros(0, np.float32), 0.0)).arguments
        simulator, count = self.simulator, min(self.size, total)
        raw, seen = np.empty((count, inputs)), np.empty((count, inputs), np.float32)
        episode, slots = np.arange(count), np.arange(count)
        simulator.expect(plan.seeds)
        for row in range(count):
            raw[row] = simulator.begin(row, int(plan.seeds[row]))
        following = count
        while count:
            now = episode[:count]
            good = kernels.meet(raw[:count], now, *normalise, outcome.steps, outcome.sums, seen[:count])
            outputs = policies.act(seen[:count], plan.policies[now], plan.places[now])
            for row, number in [] if good else unusable(raw[:count], normaliser):
                outputs[row] = np.nan  # ends the episode
                outcome.faults.append(self._bad_observation(raw[row], number, plan, outcome, now[row]))
            for row, value in self._step(slots[:count], outputs, raw[:count]):
                outcome.returns[episode[row]] = value
                outcome.penalties[episode[row]] = simulator.penalties[slots[row]]
                if not isfinite(value) and np.isfinite(outputs[row]).all():
                    seed, step = plan.seeds[episode[row]], outcome.steps[episode[row]]
                    outcome.faults.append(self._fault("the sum of the rewards", value, step, seed, "a reward must be finite"))
                if following < total:
                    raw[row] = simulator.begin(int(slots[row]), int(plan.seeds[following]))
                    episode[row] = following
                    following += 1
                else:
                    count -= 1
                    for line in (raw, episode, slots):
                        line[row] = line[count]  # the last running row fills the gap
        return outcome

    def _bad_observation(self, raw: np.ndarray, number: int, plan: EpisodeSchedule, outcome: EpisodeOutcome, j: int) -> str:
        """Describe ``raw``[number] in episode j."""
        place = ", ".join(map(str, np.unravel_index(number, self.spaces.shape))) if self.spaces.shape else "()"
        why = "a policy takes finite numbers of float32"
        if np.isfinite(raw[number]) and outcome.sums.size:
            why = f"statistics hold {kernels.FARTHEST:g} deviations from the mean, task.normalise=false has none"
        return self._fault(f"observation[{place}]", raw[number], outcome.steps[j] - 1, plan.seeds[j], why)

    def _fault(self, what: str, value: float, step: int, seed: int, why: str) -> str:
        """Describe an unusable number that the environment gave."""
        return f"task.id={self.maker.identifier}: {what} is {value:g} at step {step} of the episode with seed {seed}; {why}"

    def _step(self, slots: np.ndarray, outputs: np.ndarray, raw: np.ndarray) -> list[tuple[int, float]]:
        """Step ``slots`` by the ``outputs`` of policies, and write their observations to ``raw``.

        Returns the rows that ended, with their returns, the last row first: a row that fills a gap was then already looked at.
        """
        simulator = self.simulator
        actions, good = actions_of(self.spaces, outputs)
        if good:
            return [(row, float(simulator.totals[slots[row]])) for row in reversed(simulator.step(slots, actions, raw))]
        fine = np.flatnonzero(np.isfinite(outputs).all(axis=1))
        observations = raw[fine]
        ended = simulator.step(slots[fine], [actions[row] for row in fine], observations) if len(fine) else []
        raw[fine] = observations
        values = {int(fine[place]): float(simulator.totals[slots[fine[place]]]) for place in ended}
        failed = {row: float("nan") for row in range(len(slots)) if row not in set(fine.tolist())}
        return sorted((values | failed).items(), reverse=True)

    def close(self) -> None:
        if self._simulator is not None:
            self._simulator.close()
            self._simulator = None


def unusable(raw: np.ndarray, normaliser: Normaliser | None) -> list[tuple[int, int]]:
    """Return the rows of ``raw`` (n, I) with a number that :func:`policy_kernels.meet` refuses, and the first such number."""
    size, most = np.abs(raw), kernels.LARGEST
    if normaliser is not None:
        base, mean, inverse, _ = normaliser.arguments
        with np.errstate(over="ignore"):
            size, most = np.abs((raw - base - mean) * inverse), kernels.FARTHEST
    bad = ~(size <= most)
    return [(row, int(bad[row].argmax())) for row in np.flatnonzero(bad.any(axis=1)).tolist()]
