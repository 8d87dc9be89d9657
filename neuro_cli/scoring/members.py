"""Scoring of members one by one, a member per thread.

A thread's module has parameters that are views of the thread's own flat vector, into which the sampler writes centre and
noise in one pass. Any ``nn.Module`` works as it is, nothing is swapped or restored, and what is held is the members in
flight, never the population. The fastest way on a CPU when a member has many examples.
"""

import logging
import queue
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.module.own_numbers import TURNED, with_own_numbers
from neuro_cli.core.module.torch_errors import advised
from neuro_cli.core.seeds import Generators, elsewhere
from neuro_cli.scoring.base import PopulationScorer, ScoringSettings
from neuro_cli.scoring.candidate import Candidate
from neuro_cli.scoring.convolutions import put_convolutions, saves_products
from neuro_cli.scoring.isolation import InputCopies, difference
from neuro_cli.scoring.jobs import MemberJob, jobs_of
from neuro_cli.scoring.nan_outputs import COMPILED, HIDDEN, NanOutputs
from neuro_cli.scoring.passes.member_dimension import unfused
from neuro_cli.scoring.tolerance import TWICE
from neuro_cli.task.base import Batch

log = logging.getLogger(__name__)

OTHER_INPUTS = (-0.5, 3.0)  # factors of the inputs on which a cache is tried
MOST_TRIED = 8  # functions of a script that are tried, as one with a text of its own for every generation is another each time


@dataclass
class _Slot:
    """Candidates of one thread; ``minus`` is for the other half of an antithetic pair."""

    plus: Candidate
    minus: Candidate | None = None


Score = Callable[[range, list[_Slot]], np.ndarray]  # scores members with candidates


class MemberScorer(PopulationScorer):
    """One forward pass per member."""

    def __init__(self, settings: ScoringSettings, centre: Tensor) -> None:
        super().__init__(settings)
        cpu = settings.device.type == "cpu"
        fewer = cpu and settings.precision == torch.float32 and saves_products(settings, centre)
        self._change = partial(put_convolutions, examples=settings.examples) if fewer else None
        self._isolation, self._tried_codes, self._guards = settings.isolation, set[Any](), False
        self._slots = [_Slot(self._candidate()) for _ in range(settings.threads.count)]
        self._looks = True  # one member's outputs are looked at in each generation
        self._begins: Candidate | None = None  # state in which every member begins, unless it gets a fresh copy
        kind = "one member per thread" if cpu else "one member after the other"
        form = str(self.task.memory_format).removeprefix("torch.") + ", convolutions with fewer products" * fewer
        precision = str(settings.precision).removeprefix("torch.")
        log.info("scoring: %s on %s, %d threads, %s, %s", kind, settings.device, settings.threads.count, precision, form)

    def _candidate(self, shared: Candidate | None = None) -> Candidate:
        return self.settings.candidate(shared, self._change)

    @unfused()
    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        def score(some: range, slots: list[_Slot]) -> np.ndarray:
            return self._scores(proposal, generation, some, part, slots)

        with advised(type(self.module).__name__, self.settings.precision):
            out = self._isolated(score, members, part)
        if len(self._tried_codes) < MOST_TRIED and self.task.code not in self._tried_codes:
            out = self._tried(score, members, part, out)
        return out

    def _isolated(self, score: Score, members: range, part: tuple[int, int] | None) -> np.ndarray:
        """Score again if members changed something that other members depend on."""
        isolation = self._isolation
        while True:
            before, copied = Generators(), isolation.inputs
            out = score(members, self._slots)
            in_turn = partial(score, members, self._slots[:1])  # other threads would wait for the generators' lock
            moved = isolation.see_draws(before, in_turn) | self._see_states(score, members)
            if isolation.draws and part is not None:
                allowed = "scoring draws random numbers, which would depend on how the examples are shared out"
                raise ConfigError("distribution", "data_parallel", allowed)
            late = copied is False and isolation.inputs  # earlier members have read what another one wrote
            isolation.inputs = bool(isolation.inputs)
            if not moved and not late:
                return out

    def _see_states(self, score: Score, members: range) -> bool:
        """Look at the modules that members used; True where state moved from member to member."""
        if self._isolation.copies:
            return False
        self._begins = self._begins or self._candidate(self._slots[0].plus)
        if self._unchanged(self._begins.module):
            return False
        # a cache that does not depend on the member is the same after any member's pass: later members may begin with it. The
        # first one's may be in the modules of all, so another member is asked, with other parameters: most have the same signs
        warm, last = _Slot(self._candidate()), members[-1]
        other = last if len(members) > 1 else last - 1 if last else min(1, self.population - 1)
        left = self._far(score, range(other, other + 1), warm)
        if left and other != members[0] and self._unchanged(warm.plus.module) and not self._tells(score, members[:1]):
            self._begins = warm.plus
            return False
        self._isolation.see_states(self._begins.module, self._used())
        return True

    def _far(self, score: Score, member: range, slot: _Slot) -> bool:
        """Score a member with parameters that no member has, in a fresh ``slot``; False if it raises."""
        if isinstance(self.module, torch.jit.ScriptModule):  # scripted modules refuse hooks
            score(member, [slot])
            return True
        handle = slot.plus.module.register_forward_pre_hook(_turned)
        try:
            score(member, [slot])
        except Exception:  # any kind: the module's own, with parameters that are no user's
            return False
        finally:
            handle.remove()
        return True

    def _tells(self, score: Score, member: range) -> bool:
        """Return whether the state that a member left changes its score on other inputs, such as those of a later generation."""
        if isinstance(self.module, torch.jit.ScriptModule):  # scripted modules refuse hooks
            return False
        for factor in OTHER_INPUTS:
            scores = []
            for earlier in (False, True):
                slot = _Slot(self._candidate())
                if earlier:
                    score(member, [slot])
                slot.plus.module.register_forward_pre_hook(partial(_times, factor), with_kwargs=True)
                try:
                    scores.append(score(member, [slot]))
                except Exception:  # any kind: the module's own, on inputs that are no user's
                    return True
            if not np.array_equal(scores[0], scores[1], equal_nan=True):
                return True
        return False

    def _used(self) -> list[nn.Module]:
        return [candidate.module for slot in self._slots for candidate in (slot.plus, slot.minus) if candidate is not None]

    def _unchanged(self, reference: nn.Module) -> bool:
        """Return whether all threads' modules are in the state of ``reference``."""
        return all(difference(reference, module) is None for module in self._used())

    def _tried(self, score: Score, members: range, part: tuple[int, int] | None, out: np.ndarray) -> np.ndarray:
        """Score two members again, in reverse order and with an unused module.

        Raises ConfigError if scores differ, NotItsOwnError where they compute with the centre itself. ``out``: all scores,
        computed again if they depended on other members.
        """
        isolation, some = self._isolation, members[:2]
        self._tried_codes.add(self.task.code)

        def again(order: Iterable[int]) -> np.ndarray:
            fresh = [_Slot(self._candidate())]
            scores = {member: score(range(member, member + 1), fresh) for member in order}
            return np.concatenate([scores[member] for member in some])

        self._guards = True
        try:
            with elsewhere() as began:  # a fitness that seeds the generators itself leaves them as its last call did
                repeated = again(reversed(some))
                draws = isolation.see_draws(began, partial(again, some))
        finally:
            self._guards = False
        if draws:
            return self._tried(score, members, part, self._isolated(score, members, part))
        scored = out[: len(some)]
        if alike(scored, repeated) or alike(scored, again(some)):  # compiled parts compute plainly with guards
            return out
        before = isolation.copies, isolation.inputs, isolation.draws
        isolation.copies = isolation.inputs = isolation.draws = True
        if alike(first := again(reversed(some)), other := again(some)):  # two orders: a simulator may remember one member
            self.settings.warn("model: scores depend on the members scored before: every member gets a fresh copy, slower")
            return self._isolated(score, members, part)
        isolation.copies, isolation.inputs, isolation.draws = before
        text = f"the same member scored twice has {first[0, 0]:.6g} and {other[0, 0]:.6g}"
        if not self.task.own_noise:
            allowed = f"{text}: a forward pass changes something outside of the module, or draws numbers that no seed reaches"
            raise ConfigError("model", type(self.module).__name__, allowed)
        self.settings.warn(f"fitness: {text}: results depend on the order of calls, and so on threads and ranks")
        return out

    def _scores(
        self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None, slots: list[_Slot]
    ) -> np.ndarray:
        settings, sampler, isolation = self.settings, self.settings.sampler, self._isolation
        settled = isolation.settled
        looked_at = self._one_of(members, generation) if slots is self._slots else None
        out = np.empty((len(members), len(self.task.score_names)))
        free: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        for slot in slots:
            free.put(slot)
        shared = None
        if not settings.per_example:
            shared = self.task.batch(generation, *(part or (0, settings.batch_size))).to(settings.precision).clone()

        def run(job: MemberJob) -> None:
            slot = free.get()
            try:
                batch = shared or self._own_batch(generation, job.direction)
                for member, candidate in self._candidates(slot, job, proposal, generation):
                    start = time.perf_counter()
                    out[member - members.start] = (
                        self.task.score(candidate.ready(), batch)
                        if settled and not self._guards and member != looked_at
                        else self._score(candidate, batch, generation, job.direction, member if member == looked_at else None)
                    )
                    settings.clock.add("forward", time.perf_counter() - start, settings.threads.count)
                if shared is None:
                    isolation.see_inputs(batch)
            finally:
                free.put(slot)

        jobs = jobs_of(sampler, members, proposal)
        with settings.clock.phase("sample"):
            sampler.prepare(generation, range(jobs[0].direction, jobs[-1].direction + 1))
        if isolation.draws or len(slots) < settings.threads.count:  # all threads of a process share the generators
            for job in jobs:
                run(job)
        else:
            settings.threads.passes(run, jobs, wrote=self.writes([slot.plus.module for slot in slots]))
        if shared is not None:
            isolation.see_inputs(shared)
        return out

    def _score(self, candidate: Candidate, batch: Batch, generation: int, direction: int, looked_at: int | None) -> np.ndarray:
        """Return the score of a member on its own; ``looked_at``: its number if its outputs are looked at."""
        isolation = self._isolation
        module = (self._candidate(candidate) if isolation.copies else candidate).ready()
        copying = isolation.inputs is not False
        given = batch.clone() if copying else batch
        hooks = InputCopies(isolation, module) if copying and not self.task.hands_batch else None
        try:
            with isolation.seeded(self.settings.sampler.noise.seed, generation, direction):
                run = partial(self.task.score, module, given)
                guards, self._guards = self._guards, False  # one member is enough
                if looked_at is not None and not guards:
                    result = self._said_of(module, run, generation, looked_at)
                else:
                    result = with_own_numbers(module, run) if guards else run()
        finally:
            if hooks is not None:
                hooks.remove()
        if copying:
            isolation.see_inputs(given)
        return result

    def _one_of(self, members: range, generation: int) -> int | None:
        """Return the member whose outputs are looked at, None after a warning and where a hook would compile a function again."""
        if not self._looks or any(hasattr(function, COMPILED) for function in self.task.own_functions):
            return None
        return members[generation % len(members)]

    def _said_of(self, module: nn.Module, run: Callable[[], np.ndarray], generation: int, member: int) -> np.ndarray:
        """Return what ``run`` gives, after one warning in a run where its calls of ``module`` give NaN and it does not."""
        with NanOutputs(module) as outputs:
            result = run()
        if outputs.found and np.isfinite(result).all():
            self._looks = False
            self.settings.warn(HIDDEN.format(member=member, generation=generation))
        return result

    def _own_batch(self, generation: int, direction: int) -> Batch:
        """Return examples of one direction where each has its own."""
        examples = self.examples
        return self.task.batch(generation, direction * examples, (direction + 1) * examples).to(self.settings.precision).clone()

    def _candidates(self, slot: _Slot, job: MemberJob, proposal: Proposal, generation: int) -> list[tuple[int, Candidate]]:
        """Return the job's members with their parameters in candidates of the slot."""
        start = time.perf_counter()
        sampler, first = self.settings.sampler, slot.plus
        if job.plus is not None and job.minus is not None:
            # the second module is created with the first pair: members without pairs need none
            second = slot.minus = slot.minus or self._candidate()
            job.write(sampler, proposal, generation, first.flat, second.flat)
            taken = [(job.plus, first), (job.minus, second)]
        elif job.plus is not None:
            job.write(sampler, proposal, generation, first.flat, None)
            taken = [(job.plus, first)]
        else:
            assert job.minus is not None
            job.write(sampler, proposal, generation, None, first.flat)
            taken = [(job.minus, first)]
        self.settings.clock.add("sample", time.perf_counter() - start, self.settings.threads.count)
        return taken


def _turned(module: nn.Module, _: Any) -> None:
    """Turn the signs of a module's trainable parameters, and scale them."""
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.data.mul_(TURNED)


def _times(factor: float, _: nn.Module, args: Any, kwargs: Any) -> Any:
    """Scale the floats among a module's inputs, and exchange the rows of others."""

    def other(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value * factor if value.is_floating_point() else value.flip(0) if value.dim() else value

    return tree_map(other, (args, kwargs))


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two scorings of the same members agree up to rounding."""
    largest = np.abs(one, where=np.isfinite(one), out=np.zeros_like(one)).max(initial=0.0)
    return np.allclose(one, other, rtol=TWICE, atol=TWICE * largest, equal_nan=True)
