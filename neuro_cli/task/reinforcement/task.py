"""Reinforcement learning: a policy is scored by its mean return over complete episodes in an environment.

An episode is an example, with ``episodes`` of them in a generation. Their seeds are a function of (seed, generation, episode).
All members have the same ones (common random numbers); with ``common_episodes=false`` only the two sides of a direction share
them. There is no action noise and no reward shaping.

Legend: B episodes, C score columns, I numbers of an observation, A outputs of a policy.
"""

import logging
import queue
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_cli.core.checks import boolean, integer, number, one_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import LOWER, RETURN, Metric
from neuro_cli.core.noise import EPISODE_STREAM, EVALUATION_STREAM, random_words, words_between
from neuro_cli.task.base import Batch, Task
from neuro_cli.task.reinforcement.environment import EnvironmentFactory, Spaces
from neuro_cli.task.reinforcement.envpool_simulator import envpool_spaces
from neuro_cli.task.reinforcement.episodes import EnvironmentPool, EpisodeOutcome, EpisodeSchedule
from neuro_cli.task.reinforcement.observations import LEAST_DEVIATION, NormalisedPolicy, Normaliser, ObservationStatistics
from neuro_cli.task.reinforcement.policies import Policies, answer, policies_of, starting_states
from neuro_cli.task.reinforcement.simulators import SIMULATORS
from neuro_cli.task.reinforcement.trial import settled
from neuro_cli.task.reinforcement.wrappers import Wrapper, Wrapping, sequence, wrappers_of

log = logging.getLogger(__name__)

EVALUATED_TOGETHER = 10  # test episodes in a chunk, which one rank plays
DEVIATION = Metric("return_deviation", "deviation of the return", ".1f", better=LOWER, column=False)
LENGTH = Metric("mean_episode_length", "mean episode length", ".1f", column=False)
FRESH = 1 << 31  # first seed of test episodes; those of training are below


class Reinforcement(Task):
    """Task of an environment ``id`` of gymnasium. Other spaces than a Box are converted to one (:func:`wrappers.boxed`).

    ``environments``: how many are stepped together. ``anew``: create an environment for every episode, for those that
    ``reset(seed)`` does not bring back to the same state; None: if a trial shows that (:mod:`trial`). ``step_bonus``: added to
    every step's reward in training, never in the test; None: less what gymnasium's MuJoCo robots are paid for survival, as
    Mania et al. 2018, section 4.1 do for Hopper and Ant. ``simulator``: what steps the environments, one of
    :data:`simulators.SIMULATORS`; all but ``envpool`` have the same bits. ``wrappers``: callables that take an environment and
    return another, the innermost first. ``frame_stack``: number of last observations that are stacked; ``reward_weights``:
    weights of a vector of rewards; ``scale_actions``: outputs from -1 to 1 span the Box of actions; None: if it has bounds.
    ``least_deviation``: observations that move less are divided by it. ``end_penalty`` >= 0: factor, in training only, on a
    reward below 0 with which the environment itself ends an episode, such as that of a fall. ``bonus_after`` >= 0: steps of an
    episode without the ``step_bonus``. Raises ConfigError.
    """

    scored_by = "episodes"
    has_loss = False
    fitness_is = "return"
    batch_key = "task.episodes"
    metrics = (RETURN, DEVIATION, LENGTH)
    functions: ClassVar[Mapping[str, int]] = {"wrappers": 1}  # called with the environment
    imports = ("id", "options")  # arguments whose texts may name modules for gymnasium or the environment to import

    def __init__(
        self,
        id: str,
        episodes: int = 1,
        common_episodes: bool = True,
        max_steps: int | None = None,
        normalise: bool = True,
        clip: float = 5.0,
        environments: int = 16,
        evaluation_episodes: int = 100,
        anew: bool | None = None,
        options: dict[str, Any] | None = None,
        step_bonus: float | None = 0.0,
        simulator: str = "auto",
        wrappers: Sequence[Wrapper] = (),
        frame_stack: int = 1,
        reward_weights: Sequence[float] | None = None,
        scale_actions: bool | None = False,
        least_deviation: float = LEAST_DEVIATION,
        end_penalty: float = 1.0,
        bonus_after: int = 0,
    ) -> None:
        if not isinstance(id, str):
            raise ConfigError("task.id", id, "must be the id of an environment")
        self.id = id
        self.episodes = integer("task.episodes", episodes, 1)
        self.own_examples = not boolean("task.common_episodes", common_episodes)
        self.normalise = boolean("task.normalise", normalise)
        self.clip = number("task.clip", clip, above=0.0)
        self.least_deviation = number("task.least_deviation", least_deviation, above=0.0)
        self.end_penalty = number("task.end_penalty", end_penalty, low=0.0)
        self.environments = integer("task.environments", environments, 1)
        self.evaluation_episodes = integer("task.evaluation_episodes", evaluation_episodes, 1)
        # the key of saved configs; the code's own word is recreate
        self._recreate = None if anew is None else boolean("task.anew", anew)
        self.recreate = bool(self._recreate)  # load() decides by a trial if the config does not
        self._bonus_given = None if step_bonus is None else number("task.step_bonus", step_bonus)
        self.bonus_after = integer("task.bonus_after", bonus_after, 0)
        self.simulator = one_of("task.simulator", simulator, SIMULATORS)
        if self.simulator == "envpool" and self._recreate is False:
            raise ConfigError("task.anew", anew, "task.simulator=envpool has a new environment for every episode: null or true")
        self._scale = None if scale_actions is None else boolean("task.scale_actions", scale_actions)
        limit = None if max_steps is None else integer("task.max_steps", max_steps, 1)
        wrapping = Wrapping(
            wrappers_of(wrappers),
            integer("task.frame_stack", frame_stack, 1),
            None if reward_weights is None else sequence("task.reward_weights", reward_weights, finite, "a list of numbers"),
        )
        if wrapping and self.simulator not in ("auto", "gymnasium"):
            raise ConfigError("task.simulator", simulator, "wrappers, frames and weights need auto or gymnasium")
        self.maker = EnvironmentFactory(self.id, limit, dict(options or {}), wrapping)
        self.statistics: ObservationStatistics | None = None
        self._stages: queue.SimpleQueue[EnvironmentPool] = queue.SimpleQueue()
        weakref.finalize(self, closed, self._stages)  # runs at the end of the process at the latest
        self._spaces: Spaces | None = None

    @property
    def spaces(self) -> Spaces:
        """Observations and actions of the environment. Raises UserError."""
        if self._spaces is None:
            spaces = envpool_spaces(self.maker) if self.simulator == "envpool" else self.maker.spaces()
            self._spaces = spaces.with_scale(self._scale)
        return self._spaces

    @cached_property
    def step_bonus(self) -> float:
        """Number that training adds to the reward of every step. Raises UserError."""
        if self._bonus_given is not None or self.simulator == "envpool":
            return self._bonus_given or 0.0
        survival = self.maker.survival_bonus()
        if survival:
            log.info("%s: training leaves out %g a step for survival (task.step_bonus=0: it counts)", self.id, survival)
        return -survival

    @property
    def score_names(self) -> tuple[str, ...]:
        """Columns: ``fitness`` is the return, ``steps`` the observations acted on; then I sums of z and I of z**2."""
        columns = range(self.spaces.inputs) if self.normalise else ()
        return ("fitness", "steps", *(f"z_{i}" for i in columns), *(f"z_{i}_squared" for i in columns))

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages that the environment's code belongs to and imports: returns are those of their versions."""
        return ("envpool",) if self.simulator == "envpool" else ("gymnasium", *self.maker.packages())

    def refuse(self, *, layout: str, precision: str, gradient: bool) -> None:
        if gradient:
            raise UserError(f"algo=sgd: a return has no gradient, task.id={self.id} needs a population")
        if layout == "per_example":
            allowed = f"task.id={self.id} has no batch of examples; task.common_episodes=false gives every direction its own"
            raise ConfigError("layout", layout, allowed)
        if precision != "float32":
            raise ConfigError("precision", precision, f"policies of task.id={self.id} run in float32")

    def model_arguments(self, input_shape: tuple[int, ...] | None) -> dict[str, Any]:
        return {"inputs": self.spaces.inputs, "outputs": self.spaces.outputs}

    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        """Look at the task's environment and try it. ``batch_size`` is not used: ``episodes`` takes its place."""
        spaces = self.spaces
        if input_shape is not None and int(np.prod(input_shape)) != spaces.inputs:
            shapes = ("x".join(map(str, shape)) for shape in (input_shape, spaces.shape))
            raise UserError("model expects {} numbers, task.id={id} gives observations of {}".format(*shapes, id=self.id))
        self.input_shape, self.output_size, self.batch_size = spaces.shape, spaces.outputs, self.episodes
        self.recreate = self.simulator == "envpool" or self.settled(spaces)
        self.evaluation_chunks = -(-self.evaluation_episodes // EVALUATED_TOGETHER)
        self._seed = seed
        if self.normalise and self.statistics is None:
            self.statistics = ObservationStatistics(spaces.inputs, self.least_deviation)
        if self.statistics is not None and len(self.statistics.mean) != spaces.inputs:
            raise UserError(
                f"task.id={self.id}: statistics of {len(self.statistics.mean)} numbers, observations of {spaces.inputs}"
            )

    def misfit(self, module: nn.Module) -> str | None:
        """Return None, after asking ``module`` about an observation of zeros. Raises UserError if it does not fit."""
        if any(isinstance(part, _BatchNorm) for part in module.modules()):
            raise UserError("model: batch norm would mix episodes; task.normalise=true normalises observations")
        parameter = next(module.parameters(), None)
        device = torch.device("cpu") if parameter is None else parameter.device
        with torch.no_grad():
            outputs, _ = answer(
                module, torch.zeros(1, *self.spaces.shape, device=device, dtype=torch.float32), starting_states(module, 1)
            )
        if outputs.shape[1] != self.output_size:
            what = "one for each choice" if self.spaces.actions else "the numbers of an action"
            raise UserError(f"model: it has {outputs.shape[1]} outputs, task.id={self.id} needs {self.output_size} ({what})")
        return None

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        """Return episodes [start, stop): ``inputs`` and ``targets`` (B,) are their seeds, below 2**31."""
        words = words_between(self._seed, generation, EPISODE_STREAM, start, stop)
        seeds = torch.from_numpy((words >> 1).astype(np.int64))
        return Batch(seeds, seeds)

    def play(self, plan: EpisodeSchedule, policies: Policies, normaliser: Normaliser | None) -> EpisodeOutcome:
        """Play the episodes of ``plan``. Thread-safe: every thread has its own environments, closed when one raises."""
        try:
            stage = self._stages.get_nowait()
        except queue.Empty:
            stage = self.stage()
        try:
            outcome = stage.play(plan, policies, normaliser)
        except BaseException:
            _close(stage)  # the stage's episodes may stand anywhere
            raise
        self._stages.put(stage)
        return outcome

    def stage(self) -> Any:
        """Return a pool of environments for a thread of the task."""
        return EnvironmentPool(self.maker, self.spaces, self.environments, self.recreate, self.simulator)

    @property
    def seats(self) -> int:
        """Number of agents in an episode of the task."""
        return 1

    def settled(self, spaces: Spaces) -> bool:
        """Return whether every episode needs a new environment, by a trial. Raises ConfigError."""
        return settled(self.maker, spaces, self._recreate)

    @property
    def normaliser(self) -> Normaliser | None:
        """Normalisation of observations in training; None with ``normalise=false``."""
        if self.statistics is None:
            return None
        mean, inverse, base = self.statistics.units()
        return Normaliser(mean, inverse, self.clip, base)

    def columns(self, outcome: EpisodeOutcome) -> np.ndarray:
        """Return scores (J, C) float64 of the episodes of ``outcome``."""
        fitness = outcome.returns + self.step_bonus * np.maximum(outcome.steps - self.bonus_after, 0)
        if self.end_penalty != 1.0:
            fitness = fitness + (self.end_penalty - 1.0) * outcome.penalties
        return np.column_stack([fitness, outcome.steps, outcome.sums])

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        seeds = batch.targets.numpy()
        plan = plan_of(seeds[None])
        policies = policies_of(module, len(seeds) * self.seats, self.spaces.shape)
        outcome = self.play(plan, policies, self.normaliser)
        if outcome.faults:
            raise UserError(outcome.faults[0])
        return torch.from_numpy(self.columns(outcome)).float()

    def measures(self, means: np.ndarray, members: int, seconds: float) -> dict[str, float]:
        steps = float(means[1]) * self.episodes * members
        return {
            "episode_length": float(means[1]),
            "environment_steps": round(steps),
            "steps_per_second": steps / seconds,
        }

    def absorb(self, generation: int, means: np.ndarray, members: int) -> None:
        if self.statistics is None:
            return
        episodes, size = self.episodes * members, self.spaces.inputs
        sums = means * episodes
        self.statistics.add(float(sums[1]), sums[2 : 2 + size], sums[2 + size :])

    def state(self) -> dict[str, Tensor]:
        return {} if self.statistics is None else self.statistics.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        if self.normalise and state:
            self.statistics = ObservationStatistics.of(state, self.least_deviation)

    def deployed(self, module: nn.Module) -> nn.Module:
        return module if self.statistics is None else NormalisedPolicy(module, self.statistics, self.clip)

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        raise AssertionError("a return has no loss")  # refuse() raises before

    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        """Return sums (4,) over episodes that training never uses: returns, their squares, steps, episodes."""
        first = chunk * EVALUATED_TOGETHER
        last = min(first + EVALUATED_TOGETHER, self.evaluation_episodes)
        words = random_words(self._seed, 0, 0, EVALUATION_STREAM, last)[first:]
        plan = plan_of(FRESH + (words >> 1).astype(np.int64)[None])
        normaliser = None
        if isinstance(module, NormalisedPolicy):  # the same arithmetic as in training
            base = None if module.base is None else module.base.cpu().numpy()
            normaliser = Normaliser(module.mean.cpu().numpy(), module.inverse.cpu().numpy(), module.clip, base)
            module = module.policy
        outcome = self.play(plan, policies_of(module, (last - first) * self.seats, self.spaces.shape), normaliser)
        if outcome.faults:
            log.warning("%s: this episode of the test has no return", outcome.faults[0])
        returns = outcome.returns
        return np.array([returns.sum(), (returns**2).sum(), outcome.steps.sum(), len(returns)], np.float64)

    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        total, squares, steps, count = map(float, sums)
        mean = total / count
        return {
            RETURN.name: mean,
            DEVIATION.name: float(np.sqrt(max(squares / count - mean**2, 0.0))),
            LENGTH.name: steps / count,
            "test_episodes": count,
        }


def finite(value: Any) -> bool:
    """Return whether a return, ``value``, is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def plan_of(seeds: np.ndarray) -> EpisodeSchedule:
    """Return the episodes of W policies with ``seeds`` (W, e) each, policy by policy."""
    policies, episodes = seeds.shape
    return EpisodeSchedule(np.ravel(seeds), np.repeat(np.arange(policies), episodes), np.tile(np.arange(episodes), policies))


def closed(stages: "queue.SimpleQueue[EnvironmentPool]") -> None:
    """Close all environments of the task."""
    while not stages.empty():
        _close(stages.get())


def _close(stage: EnvironmentPool) -> None:
    try:
        stage.close()
    except Exception as error:  # an environment may fail at its end, when nothing depends on it any more
        log.debug("an environment is not closed: %s", error)
