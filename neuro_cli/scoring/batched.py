"""Scores many members in one forward pass: chunks of directions, a chunk a thread.

Chunks begin at multiples of their length in the whole population and are always worked out whole, both sides of a pair,
whatever a rank's share of the members is: matrix products of other sizes may round otherwise, and a score must not
depend on the number of ranks.
"""

import logging
import queue
import time

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.core.clock import Clock
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.rows import MemberBatch
from neuro_cli.core.threads import Threads
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.candidate import UNSUPPORTED, Candidate
from neuro_cli.scoring.perturbed import PerturbedForward, Unsupported
from neuro_cli.task.base import Batch, Task

log = logging.getLogger(__name__)

# values of the largest activation of a chunk: what stays near a CPU's cache, and what keeps a GPU busy
ACTIVATION = {"cpu": 2**21, "cuda": 2**27}
ROWS = {"cpu": (32, 512), "cuda": (256, 2**17)}  # least and most rows of a chunk
CHUNKS = {"cpu": 2, "cuda": 1}  # at least, so that two threads have something to share
NOISE = {"cpu": 2**26, "cuda": 2**30}  # values of noise that a sampler without reuse may hold for a chunk
TRIAL_SCALE = 0.1


class BatchedScorer:
    """Raises Unsupported where the module cannot be scored so, or not with the same outcome."""

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
        examples: int,
        per_example: bool,
    ) -> None:
        self._layout, self._task, self._sampler, self._device = layout, task, sampler, device
        self._precision, self._threads, self._clock = precision, threads, clock
        self._examples, self._per_example = examples, per_example
        self._sides = 2 if sampler.antithetic else 1
        first = Candidate(module, layout, precision, device)
        self._centre = first
        self._modules: queue.SimpleQueue[nn.Module] = queue.SimpleQueue()
        for _ in range(threads.count):
            self._modules.put(Candidate(module, layout, precision, device, shared=first).module)
        self._repeats_sides = False
        try:
            largest = self._trial(module, centre)
        except (Unsupported, *UNSUPPORTED) as error:
            if self._sides == 1:
                raise
            log.info("the sides of a pair share no layer: %s", " ".join(str(error).split())[:200])
            self._repeats_sides = True
            largest = self._trial(module, centre)
        self._length = self._chunk_length(largest)
        log.info(
            "scoring: %d members in one forward pass on %s, %d threads, %s, %s",
            self._length * self._sides,
            device,
            threads.count,
            str(precision).removeprefix("torch."),
            str(task.memory_format).removeprefix("torch."),
        )

    def _chunk_length(self, largest: int) -> int:
        """Directions of a chunk: a function of the model and the settings, never of ranks or clocks."""
        rows = chunk_rows(largest, self._device, self._sampler.directions * self._sides * self._examples)
        length = max(1, min(rows // (self._sides * self._examples), self._sampler.directions))
        if not self._sampler.reuses_noise:
            length = min(length, dense_directions(self._layout.size, self._device))
        run = self._sampler.noise_period
        if run is not None:
            length = max(divisor for divisor in range(1, min(length, run) + 1) if run % divisor == 0)
        return length

    def _trial(self, module: nn.Module, centre: Tensor) -> int:
        """Compare with single members on a few examples; the values of the largest activation of an example."""
        count = min(2, self._sampler.directions, self._sampler.noise_period or 2)
        examples = min(self._examples, 4)
        rows = MemberBatch([TRIAL_SCALE, -TRIAL_SCALE][: self._sides], count, examples)
        inputs = self._task.batch(0, 0, examples).inputs.to(self._precision)
        self._centre.flat.copy_(centre)
        self._centre.ready()
        with torch.no_grad():
            mode = PerturbedForward(self._centre.module, self._layout, self._sampler.perturbation(0, 0, rows, self._precision))
            with mode:
                made = self._centre.module(repeated(inputs, count * (self._sides if self._repeats_sides else 1)))
            single = Candidate(module, self._layout, self._precision, self._device)
            expected = []
            scale = torch.tensor([TRIAL_SCALE], device=self._device)
            for side in range(self._sides):
                for direction in range(count):
                    sides = (single.flat, None) if side == 0 else (None, single.flat)
                    self._sampler.perturb(centre, scale, 0, direction, *sides)
                    expected.append(single.ready()(inputs))
        wanted = torch.cat(expected)
        error = (made - wanted).abs().max() if made.shape == wanted.shape else torch.tensor(torch.inf)
        tolerance = (1e-3 if self._precision == torch.float32 else 0.1) * wanted.abs().max()
        if not error <= tolerance:
            raise Unsupported("many members in one forward pass do not give what single members give")
        return mode.largest

    def refuses(self, proposal: Proposal) -> str | None:
        """Why the proposal cannot be scored so, or None."""
        if len(proposal.bases) > 1 or proposal.frozen:
            return "the members have different parents"
        if proposal.scale.numel() > 1:
            return "every parameter has a step size of its own"
        return None

    def scores(self, proposal: Proposal, generation: int, members: range) -> np.ndarray:
        """Sums (n, C) float64 over each member's examples."""
        out = np.empty((len(members), len(self._task.score_names)))
        first, last = (self._sampler.side(member)[0] for member in (members[0], members[-1]))
        with self._clock.phase("sample"):
            self._centre.flat.copy_(proposal.bases[0])
            self._centre.ready()
            self._sampler.prepare(generation, range(first, last + 1))
        shared = None if self._per_example else self._task.batch(generation, 0, self._examples)
        sigma = float(proposal.scale)

        def run(chunk: int) -> None:
            low = chunk * self._length
            high = min(low + self._length, self._sampler.directions)
            sums = self._chunk(generation, low, high, sigma, shared)
            by_member = sums.swapaxes(0, 1).reshape(-1, sums.shape[-1])  # both sides of a direction side by side
            a, b = max(low * self._sides, members.start), min(high * self._sides, members.stop)
            out[a - members.start : b - members.start] = by_member[a - low * self._sides : b - low * self._sides]

        self._threads.map(run, range(first // self._length, last // self._length + 1))
        return out

    def _chunk(self, generation: int, low: int, high: int, sigma: float, shared: Batch | None) -> np.ndarray:
        """Sums (S, D, C) of directions [low, high)."""
        start = time.perf_counter()
        rows = MemberBatch([sigma, -sigma][: self._sides], high - low, self._examples)
        perturbation = self._sampler.perturbation(generation, low, rows, self._precision)
        drawn = time.perf_counter()
        batch = shared or self._task.batch(generation, low * self._examples, high * self._examples)
        times = rows.count // len(batch.targets)
        inputs = batch.inputs.to(self._precision)
        inputs = repeated(inputs, times if self._repeats_sides else times // self._sides)
        batch = Batch(inputs, batch.targets.repeat(times))
        module = self._modules.get()
        try:
            with torch.no_grad(), PerturbedForward(module, self._layout, perturbation):
                scores = self._task.example_scores(module, batch)
        finally:
            self._modules.put(module)
        sums = scores.view(len(rows.scales), high - low, self._examples, -1).sum(2, dtype=torch.float64).cpu().numpy()
        self._clock.add("sample", drawn - start, self._threads.count)
        self._clock.add("forward", time.perf_counter() - drawn, self._threads.count)
        return sums


def chunk_rows(largest: int, device: torch.device, total: int) -> int:
    """Rows of a chunk, of ``total`` rows of a module whose largest activation has ``largest`` values for a row.

    At least CHUNKS of them where the rows suffice.
    """
    low, high = ROWS[device.type]
    return max(low, min(ACTIVATION[device.type] // largest, high, -(-total // CHUNKS[device.type])))


def dense_directions(size: int, device: torch.device) -> int:
    """Directions of ``size`` numbers each that a chunk may hold."""
    return max(1, NOISE[device.type] // size)


def repeated(x: Tensor, times: int) -> Tensor:
    """``x`` (B, ..) one after the other, (times B, ..), in its memory format."""
    return x if times == 1 else torch.cat([x] * times)
