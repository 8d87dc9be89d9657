"""Environments of PettingZoo's parallel API: one policy answers for every agent, and a member's fitness is their mean return.

An agent that ends early leaves the batch; one that enters later joins it. Agents keep their order in ``possible_agents``, so an
episode depends on its seed and its policy alone.

Legend: K agents, n rows (an agent each) of the worlds that are stepped together, I numbers of an observation.
"""

import importlib
import os
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.lazy import LazyModule
from neuro_cli.core.messages.install import install
from neuro_cli.task.reinforcement.actions import actions_of
from neuro_cli.task.reinforcement.environment import EnvironmentFactory, Spaces, reason, spaces_of
from neuro_cli.task.reinforcement.episodes import EpisodeOutcome, EpisodeSchedule, unusable
from neuro_cli.task.reinforcement.observations import Normaliser
from neuro_cli.task.reinforcement.policies import Policies
from neuro_cli.task.reinforcement.simulators import ENDLESS
from neuro_cli.task.reinforcement.task import Reinforcement
from neuro_cli.task.reinforcement.trial import settled

kernels = LazyModule("neuro_cli.task.reinforcement.policy_kernels")


class PettingZoo(Reinforcement):
    """Task of a module ``id`` with a function ``parallel_env``, such as ``mpe2.simple_spread_v3``.

    ``options``: arguments of that function; the others as for :class:`Reinforcement`. Steps count every agent's. Raises
    ConfigError.
    """

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
    ) -> None:
        super().__init__(
            id, episodes, common_episodes, max_steps, normalise, clip, environments, evaluation_episodes, anew, options,
            simulator="gymnasium",
        )  # fmt: skip
        self.maker: ParallelFactory = ParallelFactory(self.id, self.maker.max_steps, self.maker.options)

    @property
    def seats(self) -> int:
        return len(self.maker.agents)

    def settled(self, spaces: Spaces) -> bool:
        # the trial looks at all agents at once; those that are gone are NaN
        joint = replace(spaces, shape=(self.seats * spaces.inputs,))
        return settled(self.maker, joint, self._recreate)

    def stage(self) -> "WorldPool":
        return WorldPool(self.maker, self.spaces, self.environments, self.recreate)


class World:
    """World of agents: a parallel ``environment``, its episode number ``episode``, the living ``agents`` and their returns.

    :meth:`reset` and :meth:`step` are the calls of gymnasium's, for the trial: every agent takes the same action.
    """

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.places = {agent: place for place, agent in enumerate(environment.possible_agents)}

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        return self._stacked(self.environment.reset(seed=seed)[0]), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        seen, rewards, *_ = self.environment.step(dict.fromkeys(self.environment.agents, action))
        return self._stacked(seen), float(sum(map(float, rewards.values()))), not self.environment.agents, False, {}

    def _stacked(self, seen: dict[str, Any]) -> np.ndarray:
        space = self.environment.observation_space(self.environment.possible_agents[0])
        gone = np.full(int(np.prod(space.shape)), np.nan)
        return np.concatenate([np.ravel(seen.get(agent, gone)) for agent in self.places])

    def begin(self, episode: int, seed: int) -> None:
        self.episode, self.steps, self.total = episode, 0, 0.0
        self._take(self.environment.reset(seed=seed)[0])

    def act(self, actions: dict[str, Any]) -> None:
        seen, rewards, *_ = self.environment.step(actions)
        self.steps += 1
        self.total += float(np.sum([float(rewards[agent]) for agent in self.places if agent in rewards]))
        self._take(seen)

    def _take(self, seen: dict[str, Any]) -> None:
        alive = set(self.environment.agents)
        self.agents = [agent for agent in self.places if agent in alive]
        self.seen = [np.ravel(seen[agent]) for agent in self.agents]

    def close(self) -> None:
        self.environment.close()


class ParallelFactory(EnvironmentFactory):
    """Factory of equal parallel environments by the dotted name of their module. ``agents``: names, after :meth:`spaces`."""

    agents: tuple[str, ...] = ()

    def make(self) -> Any:
        """Create a parallel environment of PettingZoo. Raises UserError: no such module, or its package is missing."""
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # a line on standard output at every import
        try:
            module = importlib.import_module(self.identifier)
            return World(module.parallel_env(**self.options))
        except ModuleNotFoundError as error:
            text = f"{error.name} is not installed: {install('pettingzoo')} brings PettingZoo and mpe2"
            raise ConfigError("task.id", self.identifier, f"names a module with a function parallel_env; {text}") from error
        except AttributeError as error:
            if getattr(error, "name", "") == "parallel_env":
                allowed = "must name a module with a function parallel_env, as mpe2.simple_spread_v3 does"
                raise ConfigError("task.id", self.identifier, allowed) from error
            raise ConfigError("task.id", self.identifier, f"cannot be made: {reason(error, self.identifier)}") from error
        except Exception as error:  # an environment may fail in any way
            raise ConfigError("task.id", self.identifier, f"cannot be made: {reason(error, self.identifier)}") from error

    def packages(self) -> tuple[str, ...]:
        return tuple(sorted({"pettingzoo", self.identifier.partition(".")[0]}))

    def spaces(self) -> Spaces:
        """Look at an environment. Raises ConfigError where its agents have unequal spaces."""
        world = self.make()
        environment, self.agents = world.environment, tuple(world.places)
        first = self.agents[0]
        kinds = {agent: (environment.observation_space(agent), environment.action_space(agent)) for agent in self.agents}
        world.close()
        others = [agent for agent in self.agents if kinds[agent] != kinds[first]]
        if others:
            names = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
            allowed = f"one policy serves all agents, so their spaces must be equal: {names} has others than {first}"
            raise ConfigError("task.id", self.identifier, allowed)
        return spaces_of(self.identifier, *kinds[first])


class WorldPool:
    """Pool of at most ``size`` equal worlds, created at first use. ``recreate``: create one for every episode."""

    def __init__(self, maker: ParallelFactory, spaces: Spaces, size: int, recreate: bool) -> None:
        self.maker, self.spaces, self.size, self.recreate = maker, spaces, size, recreate
        self._worlds: list[World] = []

    def play(self, plan: EpisodeSchedule, policies: Policies, normaliser: Normaliser | None) -> EpisodeOutcome:
        """Play all episodes of ``plan``; a return is the mean of the agents'."""
        total, columns = len(plan.seeds), 2 * self.spaces.inputs if normaliser is not None else 0
        outcome = EpisodeOutcome(np.zeros(total), np.zeros(total, np.int64), np.zeros((total, columns)))
        coming = iter(range(total))
        while len(self._worlds) < min(self.size, total):
            self._worlds.append(self.maker.make())
        running = self._worlds[:total]
        for world in running:
            self._begin(world, next(coming), plan)
        while running:
            self._step(running, plan, policies, normaliser, outcome)
            ended = [world for world in running if self._over(world, outcome)]
            for world in ended:
                following = next(coming, None)
                if following is None:
                    running.remove(world)
                else:
                    self._begin(world, following, plan)
        return outcome

    def _begin(self, world: World, episode: int, plan: EpisodeSchedule) -> None:
        if self.recreate:
            world.close()
            world.environment = self.maker.make().environment
        world.begin(episode, int(plan.seeds[episode]))

    def _step(
        self,
        running: list[World],
        plan: EpisodeSchedule,
        policies: Policies,
        normaliser: Normaliser | None,
        outcome: EpisodeOutcome,
    ) -> None:
        """Step the running worlds by the policies' answers to all of their agents."""
        raw = np.array([row for world in running for row in world.seen], np.float64)
        now = np.array([world.episode for world in running for _ in world.agents], np.int64)
        places = np.array([world.places[agent] for world in running for agent in world.agents], np.int64)
        seen = np.empty(raw.shape, np.float32)
        normalise = (normaliser or Normaliser(np.zeros(0, np.float32), np.zeros(0, np.float32), 0.0)).arguments
        good = kernels.meet(raw, now, *normalise, outcome.steps, outcome.sums, seen)
        seats = len(self.maker.agents)
        outputs = policies.act(seen, plan.policies[now], plan.places[now] * seats + places)
        for row, number in [] if good else unusable(raw, normaliser):
            outputs[row] = np.nan  # ends the episode
            what = f"observation {number} of {self.maker.agents[places[row]]} is {raw[row, number]:g}"
            outcome.faults.append(self._fault(what, plan.seeds[now[row]], "a policy takes finite numbers of float32"))
        actions, _ = actions_of(self.spaces, outputs)
        fine = np.isfinite(outputs).all(axis=1)
        row = 0
        for world in running:
            rows = range(row, row := row + len(world.agents))
            if not fine[rows.start : rows.stop].all():
                world.total, world.agents = np.nan, []
                continue
            world.act({agent: actions[place] for agent, place in zip(world.agents, rows, strict=True)})
            if not isfinite(world.total):
                fault = self._fault(f"the sum of the rewards is {world.total:g}", plan.seeds[world.episode], "it must be finite")
                outcome.faults.append(fault)

    def _over(self, world: World, outcome: EpisodeOutcome) -> bool:
        """Return whether the episode of ``world`` has ended, after storing its return."""
        limit = self.maker.max_steps
        if world.agents and isfinite(world.total) and (limit is None or world.steps < limit):
            if world.steps >= ENDLESS:
                allowed = f"{self.maker.identifier} did not end an episode in {ENDLESS:,} steps, so a limit is needed"
                raise ConfigError("task.max_steps", limit, allowed)
            return False
        outcome.returns[world.episode] = world.total / len(self.maker.agents)
        return True

    def _fault(self, what: str, seed: int, why: str) -> str:
        return f"task.id={self.maker.identifier}: {what} in the episode with seed {seed}; {why}"

    def close(self) -> None:
        for world in self._worlds:
            world.close()
        self._worlds = []
