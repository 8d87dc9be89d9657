"""Scores the members of a population on this rank: one member a thread, each in a module of its own.

A thread's modules have no parameters of their own: they are views of the thread's flat vectors, into which the sampler
writes centre and noise in one pass. So any ``nn.Module`` works as it is, nothing is swapped or restored, and what is
held is the members in flight, never the population. With a shared batch this is also the fastest way on a CPU (one
intra-operator thread a member, activations in oneDNN's blocked layout); a GPU is served by the same loop.
"""

import copy
import logging
import queue
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from neuro_cli.algo.base import Proposal
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.threads import Threads
from neuro_cli.distribution.clock import Clock
from neuro_cli.sampler.base import Sampler, Unit
from neuro_cli.task.base import Batch, Task

log = logging.getLogger(__name__)


class Candidate:
    """A copy of the module whose parameters are views of ``flat`` (M,) in the evaluation's precision."""

    def __init__(
        self, module: nn.Module, layout: ParameterLayout, precision: torch.dtype, device: torch.device, blocked: bool = False
    ) -> None:
        inner = scoring_mode(copy.deepcopy(module).to(precision))
        self.flat = torch.empty(layout.size, device=device)
        self._rounded = self.flat if precision == torch.float32 else torch.empty_like(self.flat, dtype=precision)
        layout.attach(inner, self._rounded)
        self.module = Blocked(inner) if blocked else inner

    def ready(self) -> nn.Module:
        """The module with the parameters that ``flat`` holds now."""
        if self._rounded is not self.flat:
            self._rounded.copy_(self.flat)
        return self.module


# what layers without a blocked kernel, and Python code that looks into a tensor, raise
UNSUPPORTED = (RuntimeError, AttributeError, TypeError)


class Blocked(nn.Module):
    """Runs a module on activations in oneDNN's own blocked layout: no reordering between layers of a CPU."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self._told = False

    def forward(self, inputs: Tensor) -> Tensor:
        try:
            outputs: Tensor = self.inner(inputs.to_mkldnn())
            return outputs.to_dense()
        except UNSUPPORTED as error:
            # a branch that the trial at the start did not take; if the module itself fails, it fails again below.
            # Tried anew for every member: a score must not depend on whom this thread scored before.
            if not self._told:
                log.warning("a layer takes no blocked activations, such members are scored without: %s", error)
            self._told = True
            plain: Tensor = self.inner(inputs)
            return plain


def scoring_mode(module: nn.Module) -> nn.Module:
    """Batch norm uses the statistics of the batch; dropout is off, for a fitness must not depend on a hidden stream."""
    module.eval()
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            part.train()
    return module


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
    ) -> None:
        self.task, self._sampler, self._threads, self._clock = task, sampler, threads, clock
        self.module, self._layout, self._device, self._precision = module, layout, device, precision
        self._batch_size = batch_size
        self._slots: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self._blocked = device.type == "cpu" and precision == torch.float32 and self._takes_blocked(centre)
        for _ in range(threads.count):
            self._slots.put(_Slot(self._candidate()))
        kind = "one member a thread" if device.type == "cpu" else "one member after the other"
        form = "oneDNN's blocked layout" if self._blocked else str(task.memory_format).removeprefix("torch.")
        precision_name = str(precision).removeprefix("torch.")
        log.info("scoring: %s on %s, %d threads, %s, %s", kind, device, threads.count, precision_name, form)
        if any(isinstance(part, _DropoutNd) for part in module.modules()):
            log.info("the model's dropout is off while candidates are scored")

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
        return bool(torch.allclose(plain, other, rtol=1e-3, atol=1e-3 * float(plain.abs().max())))

    def _candidate(self) -> Candidate:
        return Candidate(self.module, self._layout, self._precision, self._device, self._blocked)

    def scores(self, proposal: Proposal, generation: int, members: range, batches: list[Batch]) -> np.ndarray:
        """Sums (n, C) float64 over the examples of a member's batch: ``batches[i]``, or ``batches[0]`` for all."""
        out = np.empty((len(members), len(self.task.score_names)))
        batches = [batch.to(self._precision) for batch in batches]

        def run(job: _Job) -> None:
            slot = self._slots.get()
            try:
                for member, module in self._candidates(slot, job, proposal, generation):
                    place = member - members.start
                    start = time.perf_counter()
                    out[place] = self.task.score(module, batches[place if len(batches) > 1 else 0])
                    self._clock.add("forward", time.perf_counter() - start, self._threads.count)
            finally:
                self._slots.put(slot)

        self._threads.map(run, _jobs(self._sampler.units(members), proposal))
        return out

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

    def _candidates(self, slot: _Slot, job: "_Job", proposal: Proposal, generation: int) -> list[tuple[int, nn.Module]]:
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
class _Job:
    """Members made by one perturbation of one parent, or one unperturbed member."""

    parent: int
    unit: Unit
    frozen: int | None = None


def _jobs(units: list[Unit], proposal: Proposal) -> list[_Job]:
    """A unit is one job, unless its halves have different parents or one of them is frozen."""
    jobs = []
    for unit in units:
        sides = [("plus", unit.plus), ("minus", unit.minus)]
        for side, member in list(sides):
            if member is not None and member in proposal.frozen:
                jobs.append(_Job(int(proposal.parent[member]), unit, frozen=member))
                sides.remove((side, member))
        by_parent: dict[int, dict[str, int]] = {}
        for side, member in sides:
            if member is not None:
                by_parent.setdefault(int(proposal.parent[member]), {})[side] = member
        jobs += [
            _Job(parent, Unit(unit.direction, halves.get("plus"), halves.get("minus"))) for parent, halves in by_parent.items()
        ]
    return jobs
