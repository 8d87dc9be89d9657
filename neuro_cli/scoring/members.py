"""Scoring of members one by one, a member per thread.

A thread's module has parameters that are views of the thread's own flat vector, into which the sampler writes centre and
noise in one pass. Any ``nn.Module`` works as it is, nothing is swapped or restored, and what is held is the members in
flight, never the population. The fastest way on a CPU when a member has many examples (one intra-operator thread a
member, activations in oneDNN's blocked layout).
"""

import logging
import math
import queue
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.scoring.base import Scorer, ScoringSettings
from neuro_cli.scoring.candidate import UNSUPPORTED, Blocked, Candidate, brief
from neuro_cli.scoring.hidden import unfused
from neuro_cli.scoring.jobs import MemberJob, jobs_of
from neuro_cli.scoring.pooled import pooled_alike
from neuro_cli.task.base import Batch

log = logging.getLogger(__name__)

TRIED = 16  # examples on which blocked activations are compared with plain ones


@dataclass
class _Slot:
    """Candidates of one thread; ``minus`` is for the other half of an antithetic pair."""

    plus: Candidate
    minus: Candidate | None = None


class MemberScorer(Scorer):
    """One forward pass per member."""

    def __init__(self, settings: ScoringSettings, centre: Tensor) -> None:
        super().__init__(settings)
        cpu = settings.device.type == "cpu"
        self._pooled = cpu and takes_pooled(settings, centre)
        self._blocked = cpu and settings.precision == torch.float32 and not self._pooled and takes_blocked(settings, centre)
        self._slots: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        for _ in range(settings.threads.count):
            self._slots.put(_Slot(self._candidate()))
        kind = "one member per thread" if cpu else "one member after the other"
        form = "oneDNN's blocked layout" if self._blocked else str(self.task.memory_format).removeprefix("torch.")
        form += ", convolutions with pooling and ReLU in one pass" if self._pooled else ""
        precision = str(settings.precision).removeprefix("torch.")
        log.info("scoring: %s on %s, %d threads, %s, %s", kind, settings.device, settings.threads.count, precision, form)

    def _candidate(self) -> Candidate:
        return self.settings.candidate(self._blocked, pooled=self._pooled)

    @unfused()
    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        settings, sampler = self.settings, self.settings.parameter_sampler
        out = np.empty((len(members), len(self.task.score_names)))
        shared = None
        if not settings.per_example:
            shared = self.task.batch(generation, *(part or (0, settings.batch_size))).to(settings.precision)

        def run(job: MemberJob) -> None:
            slot = self._slots.get()
            try:
                batch = shared or self._own_batch(generation, job.unit.direction)
                for member, module in self._candidates(slot, job, proposal, generation):
                    start = time.perf_counter()
                    out[member - members.start] = self.task.score(module, batch)
                    settings.clock.add("forward", time.perf_counter() - start, settings.threads.count)
            finally:
                self._slots.put(slot)

        units = sampler.units(members)
        with settings.clock.phase("sample"):
            sampler.prepare(generation, range(units[0].direction, units[-1].direction + 1))
        settings.threads.map(run, jobs_of(units, proposal))
        return out

    def _own_batch(self, generation: int, direction: int) -> Batch:
        """Examples of one direction where each has its own."""
        examples = self.examples
        return self.task.batch(generation, direction * examples, (direction + 1) * examples).to(self.settings.precision)

    def _candidates(self, slot: _Slot, job: MemberJob, proposal: Proposal, generation: int) -> list[tuple[int, nn.Module]]:
        """The job's members and their modules, perturbed."""
        start = time.perf_counter()
        sampler, plus, minus = self.settings.parameter_sampler, job.unit.plus, job.unit.minus
        base, direction = proposal.bases[job.parent], job.unit.direction
        scale, transform = proposal.scale, proposal.transform
        if job.frozen is not None:
            slot.plus.flat.copy_(base)
            taken = [(job.frozen, slot.plus.ready())]
        elif plus is not None and minus is not None:
            # one draw of the noise for both halves; made on the first pair, for members without pairs need no second module
            slot.minus = slot.minus or self._candidate()
            sampler.place(base, scale, transform, generation, direction, slot.plus.flat, slot.minus.flat)
            taken = [(plus, slot.plus.ready()), (minus, slot.minus.ready())]
        elif plus is not None:
            sampler.place(base, scale, transform, generation, direction, slot.plus.flat, None)
            taken = [(plus, slot.plus.ready())]
        else:
            assert minus is not None
            sampler.place(base, scale, transform, generation, direction, None, slot.plus.flat)
            taken = [(minus, slot.plus.ready())]
        self.settings.clock.add("sample", time.perf_counter() - start, self.settings.threads.count)
        return taken


def takes_pooled(settings: ScoringSettings, centre: Tensor) -> bool:
    """Tell whether compiled convolutions are to score the members, tried on a few examples: all ranks choose alike."""
    inputs = settings.task.batch(0, 0, min(TRIED, settings.batch_size)).to(settings.precision).inputs
    if inputs.dim() != 4 or settings.examples < TRIED:  # with few, to spread the filters takes what their products save
        return False
    candidate = settings.candidate(pooled=True)
    candidate.flat.copy_(centre)
    examples = settings.examples * settings.sampler.directions
    try:
        return pooled_alike(candidate.ready(), inputs, examples, settings.precision)
    except UNSUPPORTED as error:
        log.info("convolutions with pooling in one pass are not for this model: %s", brief(error))
        return False


def takes_blocked(settings: ScoringSettings, centre: Tensor) -> bool:
    """Tell whether every layer takes blocked activations with the same outcome, tried on a few examples.

    A property of the model, not of a clock: all ranks must choose alike.
    """
    inputs = settings.task.batch(0, 0, min(TRIED, settings.batch_size)).inputs
    if inputs.dim() != 4:
        return False
    with torch.no_grad():
        outputs = []
        for blocked in (False, True):
            candidate = settings.candidate(blocked)
            candidate.flat.copy_(centre)
            try:
                module = candidate.ready()
                # not by its forward, which would go on without
                outputs.append(module.blocked(inputs) if isinstance(module, Blocked) else module(inputs))
            except UNSUPPORTED as error:
                log.info("blocked activations are not for this model: %s", brief(error))
                return False
    plain, other = outputs
    largest = float(plain.abs().max())
    return math.isfinite(largest) and bool(torch.allclose(plain, other, rtol=1e-3, atol=1e-3 * largest))
