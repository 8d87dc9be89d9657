"""Scores the members of a population on this rank.

Two ways, one of them chosen at the start and named in the log:

- one member a thread, in a module whose parameters are views of the thread's own flat vector, into which the sampler
  writes centre and noise in one pass. Any ``nn.Module`` works as it is, nothing is swapped or restored, and what is held
  is the members in flight, never the population. The fastest way on a CPU when a member has many examples (one
  intra-operator thread a member, activations in oneDNN's blocked layout).
- many members in one forward pass (:mod:`neuro_cli.scoring.batched`): on a GPU, and for samplers that reuse noise
  when a member has few examples.
"""

import logging
import math
import queue
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from neuro_cli.algo.base import Proposal
from neuro_cli.core.clock import Clock
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.threads import Threads
from neuro_cli.sampler.base import Sampler, Unit
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.candidate import UNSUPPORTED, Candidate
from neuro_cli.scoring.perturbed import Unsupported
from neuro_cli.task.base import Batch, Task

log = logging.getLogger(__name__)

# beyond this many examples a member, its own forward pass costs less than the second layer that reused noise needs
FEW_EXAMPLES = 8


@dataclass
class _Slot:
    """What one thread works with; the second candidate is for the other half of an antithetic pair."""

    plus: Candidate
    minus: Candidate | None = None


class Scorer:
    """Scores members on this rank. Legend: n members, C score columns."""

    def __init__(
        self,
        module: nn.Module,
        layout: ParameterLayout,
        task: Task,
        sampler: Sampler,
        device: torch.device,
        precision: torch.dtype,
        threads: Threads,
        clock: Clock,
        centre: Tensor,
        batch_size: int,
        per_example: bool,
    ) -> None:
        self.task, self._sampler, self._threads, self._clock = task, sampler, threads, clock
        self.module, self._layout, self._device, self._precision = module, layout, device, precision
        self._batch_size, self._per_example = batch_size, per_example
        self.examples = batch_size // sampler.directions if per_example else batch_size  # that one member is scored on
        if any(isinstance(part, _DropoutNd) for part in module.modules()):
            log.info("the model's dropout is off while candidates are scored")
        self._slots: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self._ready = False
        self._batched = self._batched_scorer(centre)
        if self._batched is None:
            self._make_slots(centre)

    def _make_slots(self, centre: Tensor) -> None:
        """What scores one member at a time: candidates for every thread."""
        cpu = self._device.type == "cpu"
        self._blocked = cpu and self._precision == torch.float32 and self._takes_blocked(centre)
        for _ in range(self._threads.count):
            self._slots.put(_Slot(self._candidate()))
        self._ready = True
        kind = "one member a thread" if cpu else "one member after the other"
        form = "oneDNN's blocked layout" if self._blocked else str(self.task.memory_format).removeprefix("torch.")
        precision = str(self._precision).removeprefix("torch.")
        log.info("scoring: %s on %s, %d threads, %s, %s", kind, self._device, self._threads.count, precision, form)

    def _batched_scorer(self, centre: Tensor) -> BatchedScorer | None:
        """What scores many members at once, where that is the better way and the module can be scored so."""
        few = self._sampler.reuses_noise and self.examples <= FEW_EXAMPLES
        if self._device.type == "cpu" and not few:
            return None
        try:
            return BatchedScorer(
                self.module, self._layout, self.task, self._sampler, self._device, self._precision, self._threads, self._clock,
                centre, self.examples, self._per_example,
            )  # fmt: skip
        except (Unsupported, *UNSUPPORTED) as error:
            log.warning("members are scored one by one, slower: %s", " ".join(str(error).split())[:200])
            return None

    def _takes_blocked(self, centre: Tensor) -> bool:
        """Whether every layer takes blocked activations with the same outcome, tried on a few examples.

        A property of the model, not of a clock: all ranks must choose alike.
        """
        inputs = self.task.batch(0, 0, min(16, self._batch_size)).inputs
        if inputs.dim() != 4:
            return False
        with torch.no_grad():
            outputs = []
            for blocked in (False, True):
                candidate = Candidate(self.module, self._layout, self._precision, self._device, blocked)
                candidate.flat.copy_(centre)
                try:
                    outputs.append(candidate.ready()(inputs))
                except UNSUPPORTED as error:
                    log.info("blocked activations are not for this model: %s", " ".join(str(error).split())[:200])
                    return False
        plain, other = outputs
        largest = float(plain.abs().max())
        return math.isfinite(largest) and bool(torch.allclose(plain, other, rtol=1e-3, atol=1e-3 * largest))

    def _candidate(self) -> Candidate:
        return Candidate(self.module, self._layout, self._precision, self._device, self._blocked)

    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        """Sums (n, C) float64 over each member's examples; ``part`` [start, stop) of the shared batch, None for all."""
        if self._batched is not None and part is None:
            reason = self._batched.refuses(proposal)
            if reason is None:
                return self._batched.scores(proposal, generation, members)
            if not self._ready:
                log.warning("members are scored one by one, slower: %s", reason)
        if not self._ready:
            self._make_slots(proposal.bases[0])
        out = np.empty((len(members), len(self.task.score_names)))
        shared = None if self._per_example else self.task.batch(generation, *(part or (0, self._batch_size))).to(self._precision)

        def run(job: MemberJob) -> None:
            slot = self._slots.get()
            try:
                batch = shared or self._own_batch(generation, job.unit.direction)
                for member, module in self._candidates(slot, job, proposal, generation):
                    start = time.perf_counter()
                    out[member - members.start] = self.task.score(module, batch)
                    self._clock.add("forward", time.perf_counter() - start, self._threads.count)
            finally:
                self._slots.put(slot)

        units = self._sampler.units(members)
        with self._clock.phase("sample"):
            self._sampler.prepare(generation, range(units[0].direction, units[-1].direction + 1))
        self._threads.map(run, jobs_of(units, proposal))
        return out

    def _own_batch(self, generation: int, direction: int) -> Batch:
        """The examples of one direction where every direction has its own."""
        return self.task.batch(generation, direction * self.examples, (direction + 1) * self.examples).to(self._precision)

    def gradient(self, centre: Tensor, batch: Batch) -> tuple[float, Tensor]:
        """The mean loss over ``batch`` at ``centre`` and its gradient (M,) float32."""
        candidate = Candidate(self.module, self._layout, self._precision, self._device)
        candidate.flat.copy_(centre)
        module = candidate.ready()
        loss = self.task.loss(module, batch.to(self._precision))
        loss.backward()
        gradient = torch.empty_like(centre)
        parameters = dict(module.named_parameters())
        for place in self._layout.places:
            grad = parameters[place.name].grad
            view = place.view(gradient)
            view.zero_() if grad is None else view.copy_(grad)
        return loss.item(), gradient

    def _candidates(self, slot: _Slot, job: "MemberJob", proposal: Proposal, generation: int) -> list[tuple[int, nn.Module]]:
        """The job's members and their modules, perturbed."""
        start = time.perf_counter()
        base, scale, direction = proposal.bases[job.parent], proposal.scale, job.unit.direction
        plus, minus = job.unit.plus, job.unit.minus
        if job.frozen is not None:
            slot.plus.flat.copy_(base)
            taken = [(job.frozen, slot.plus.ready())]
        elif plus is not None and minus is not None:
            slot.minus = slot.minus or self._candidate()
            self._sampler.perturb(base, scale, generation, direction, slot.plus.flat, slot.minus.flat)
            taken = [(plus, slot.plus.ready()), (minus, slot.minus.ready())]
        elif plus is not None:
            self._sampler.perturb(base, scale, generation, direction, slot.plus.flat, None)
            taken = [(plus, slot.plus.ready())]
        else:
            assert minus is not None
            self._sampler.perturb(base, scale, generation, direction, None, slot.plus.flat)
            taken = [(minus, slot.plus.ready())]
        self._clock.add("sample", time.perf_counter() - start, self._threads.count)
        return taken


@dataclass(frozen=True)
class MemberJob:
    """Members made by one perturbation of one parent, or one unperturbed member."""

    parent: int
    unit: Unit
    frozen: int | None = None


def jobs_of(units: list[Unit], proposal: Proposal) -> list[MemberJob]:
    """A unit is one job, unless its halves have different parents or one of them is frozen."""
    jobs = []
    for unit in units:
        sides = [("plus", unit.plus), ("minus", unit.minus)]
        for side, member in list(sides):
            if member is not None and member in proposal.frozen:
                jobs.append(MemberJob(int(proposal.parent[member]), unit, frozen=member))
                sides.remove((side, member))
        by_parent: dict[int, dict[str, int]] = {}
        for side, member in sides:
            if member is not None:
                by_parent.setdefault(int(proposal.parent[member]), {})[side] = member
        jobs += [
            MemberJob(parent, Unit(unit.direction, halves.get("plus"), halves.get("minus")))
            for parent, halves in by_parent.items()
        ]
    return jobs
