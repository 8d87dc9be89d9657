"""Scoring of members by episodes: all members of this rank in environments that are stepped together.

Members are written one by one into rows of a matrix, by the sampler and on the pool's threads; then one thread steps the
environments, and all policies answer in one compiled call (:mod:`neuro_cli.task.reinforcement.policies`). Ranks are the
way to more cores.
"""

import logging

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.seeds import Generators
from neuro_cli.scoring.base import PopulationScorer, ScoringSettings
from neuro_cli.scoring.isolation import difference
from neuro_cli.scoring.jobs import MemberJob, jobs_of
from neuro_cli.scoring.passes.member_dimension import unfused
from neuro_cli.task.reinforcement import Reinforcement
from neuro_cli.task.reinforcement.episodes import EpisodeSchedule
from neuro_cli.task.reinforcement.policies import Chain, ChainPolicies, ModulePolicies, Policies, chain_of

log = logging.getLogger(__name__)

HELD = 1 << 28  # bytes of the members that are in memory at once
TRIED = 16  # observations on which compiled policies are compared with the module


class EpisodeScorer(PopulationScorer):
    """All members of this rank at once, or as many as ``held`` bytes take.

    Legend: n members, e episodes, C columns, M parameters.
    """

    def __init__(self, settings: ScoringSettings, centre: Tensor, held: int = HELD) -> None:
        super().__init__(settings)
        self._together = max(1, held // (4 * settings.layout.size))  # members
        if not isinstance(settings.task, Reinforcement):
            allowed = f"a task that is scored by episodes derives from {Reinforcement.__module__}.{Reinforcement.__name__}"
            raise ConfigError(f"{type(settings.task).__name__}.scored_by", settings.task.scored_by, allowed)
        self._reinforcement, self._looked_at_states = settings.task, False
        self._chain = chain_of(settings.module, settings.layout)
        if self._chain is not None and not self._agrees(self._chain, centre):
            self._chain = None
        how = "one compiled call for all members" if self._chain is not None else "member by member, slower"
        log.info("policies: %s; %d environments stepped together by one thread per rank", how, self._reinforcement.environments)

    def _agrees(self, chain: Chain, centre: Tensor) -> bool:
        """Return whether the compiled chain answers as the module does, on synthetic observations."""
        if chain.inputs != self._reinforcement.spaces.inputs:
            return False
        observations = torch.linspace(-2, 2, TRIED * chain.inputs, dtype=torch.float32).sin().view(TRIED, -1)
        policy = self.settings.module_at(centre)
        with torch.no_grad():
            wanted = policy(observations.to(self.settings.device)).cpu().numpy()
        policies = ChainPolicies(chain, centre[None].cpu().numpy())
        answers = policies.act(observations.numpy(), np.zeros(TRIED, np.int64), np.arange(TRIED))
        if np.allclose(answers, wanted, rtol=1e-3, atol=1e-4):
            return True
        log.warning("the compiled policy does not answer as the module does: the module is asked")
        return False

    @unfused()
    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        out = np.empty((len(members), len(self.task.score_names)))
        for low in range(members.start, members.stop, self._together):
            some = range(low, min(low + self._together, members.stop))
            out[low - members.start : some.stop - members.start] = self._scores(proposal, generation, some, part)
        return out

    def _scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None) -> np.ndarray:
        with self.settings.clock.phase("sample"):
            flats = self._members(proposal, generation, members)
        start, stop = part or (0, self.examples)
        plan = self._plan(generation, members, start, stop)
        before, policies = Generators(), self._policies(flats)
        with self.settings.clock.phase("forward"):
            outcome = self._reinforcement.play(plan, policies, self._reinforcement.normaliser)
        self._see(before, policies)
        if outcome.faults:  # other members may have more: one line is enough
            self._tell(outcome.faults[0])
        columns = self._reinforcement.columns(outcome).reshape(len(members), stop - start, -1)
        total = np.zeros((len(members), columns.shape[2]))
        # one after the other: a sum over the axis might go in an order that depends on the number of members
        for episode in range(stop - start):
            total += columns[:, episode]
        return total

    def _see(self, before: Generators, policies: Policies) -> None:
        """Warn if returns depend on more than seed and member. Policies are created again for each generation."""
        names = before.moved()
        if names:
            self.settings.warn(
                f"an episode draws random numbers ({', '.join(names)}) that no seed of its own reaches: results do not repeat"
            )
        if isinstance(policies, ModulePolicies) and not self._looked_at_states:
            self._looked_at_states = True
            first, last = policies.modules[0], policies.modules[-1]
            name = difference(self.settings.candidate().module, first)
            if name is not None and (first is last or difference(first, last)):  # else a cache, alike for all
                allowed = "a policy with a memory has reset(episodes), takes its states (docs/how_to/reinforcement_learning.md)"
                self.settings.warn(f"model: {name} changes in a step and passes from episode to episode: {allowed}")

    def _tell(self, fault: str) -> None:
        """Raise UserError for an environment's invalid numbers; with ``algo.non_finite=worst`` warn once instead."""
        if not self.settings.tolerant:
            raise UserError(fault)
        if "non_finite" not in self.settings.said:
            self.settings.said.add("non_finite")
            log.warning("%s: its member is ranked last, as all others with such numbers", fault)

    def _plan(self, generation: int, members: range, start: int, stop: int) -> EpisodeSchedule:
        """Return the episodes [start, stop) of every member, member by member."""
        count = stop - start
        if self.task.own_examples:
            directions = [self.settings.sampler.side(member)[0] for member in members]
            first = directions[0] * self.examples
            own = self.task.batch(generation, first, (directions[-1] + 1) * self.examples).targets.numpy()
            places = (np.array(directions) * self.examples - first)[:, None] + np.arange(start, stop)
            seeds = own[places.ravel()]
        else:
            seeds = np.tile(self.task.batch(generation, start, stop).targets.numpy(), len(members))
        return EpisodeSchedule(seeds, np.repeat(np.arange(len(members)), count), np.tile(np.arange(start, stop), len(members)))

    def _policies(self, flats: Tensor) -> Policies:
        if self._chain is not None:
            return ChainPolicies(self._chain, flats.cpu().numpy())
        # the batch of all episodes, even where this rank plays a part: a row's bits depend on its place in the batch
        modules, task = [self.settings.module_at(flat) for flat in flats], self._reinforcement
        return ModulePolicies(modules, self.examples * task.seats, task.spaces.shape)

    def _members(self, proposal: Proposal, generation: int, members: range) -> Tensor:
        """Return the members' parameters (n, M)."""
        flats = torch.empty(len(members), self.settings.layout.size, device=self.settings.device, dtype=torch.float32)
        sampler, jobs = self.settings.sampler, jobs_of(self.settings.sampler, members, proposal)
        sampler.prepare(generation, range(jobs[0].direction, jobs[-1].direction + 1))

        def write(job: MemberJob) -> None:
            sides = (None if member is None else flats[member - members.start] for member in (job.plus, job.minus))
            job.write(sampler, proposal, generation, *sides)

        self.settings.threads.map(write, jobs)
        return flats
