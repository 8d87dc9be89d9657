"""Scoring of many members in one forward pass: chunks of directions, a chunk a thread.

Chunks begin at multiples of their length in the population and are always computed completely, both sides of a pair,
whatever a rank's share of the members is: matrix products of other sizes may round otherwise, and a score must not
depend on the number of ranks.
"""

import logging
import queue
import threading
import time
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.core.kernels.graphs import Graphs
from neuro_cli.core.machine.memory import give_back_memory
from neuro_cli.core.rows import MemberBatch, repeated
from neuro_cli.core.seeds import Generators
from neuro_cli.sampler.base import Perturbation
from neuro_cli.sampler.dense import Dense, DensePerturbation
from neuro_cli.sampler.layer_scaled import LayerScaled
from neuro_cli.scoring.base import PopulationScorer, ScoringSettings
from neuro_cli.scoring.candidate import brief
from neuro_cli.scoring.chunk_size import CHUNKS, chunk_rows, dense_directions, product_directions, shared_directions
from neuro_cli.scoring.isolation import difference
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.passes.dense import Unwritten, is_large
from neuro_cli.scoring.passes.example_marks import with_mark
from neuro_cli.scoring.passes.mapped import MappedForward
from neuro_cli.scoring.passes.member_dimension import unfused
from neuro_cli.scoring.passes.number_reads import NeedsCare
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.restore import has_caches
from neuro_cli.scoring.passes.row_order import refuse_order
from neuro_cli.scoring.traces import traces
from neuro_cli.scoring.trial import Way, chosen_way, is_heavy, prove
from neuro_cli.task.base import Batch

log = logging.getLogger(__name__)

WATCHED = 16  # generations from the first whose tensors are followed in every pass; later each of that number
LARGE_ROWS = 1024  # most rows of a chunk by a large network: enough for its products, and activations stay small next to it


class Closures(Protocol):
    """Code that calls a member and scores its outputs."""

    def outputs(self, module: nn.Module, batch: Batch) -> Any:
        """Return the outputs of ``module`` in the code's call on the examples of ``batch``."""

    def scores_of(self, module: nn.Module, outputs: Any, rows: int) -> Tensor:
        """Return values (rows, 1) of the code, which gets each member's ``outputs`` in turn where it calls ``module``."""


class BatchedScorer(PopulationScorer):
    """One forward pass a chunk of members; members that it refuses are scored one by one.

    So is a chunk whose pass raises an error, whatever it is: a function of the chunk alone, which all ranks compute completely.
    ``slower``: single members are expected to be faster. ``closures``: score in place of the task. Raises Unsupported if the
    module cannot be scored this way with equal results.
    """

    def __init__(self, settings: ScoringSettings, centre: Tensor, closures: Closures | None = None) -> None:
        super().__init__(settings)
        self._sides = 2 if settings.sampler.antithetic else 1
        # a copy of a large centre counts, so passes must not write to it
        self._large = is_large(settings.module, centre)
        self._centre = settings.candidate(flat=centre if self._large else None)
        self._single: MemberScorer | None = None
        self._generations, self._looked = 0, False
        self._proven: set[tuple[Any, ...]] = set()  # forms of examples on which the way was proven
        # another trial of a large network would take as long as a generation
        self._provable = not (self._large or is_heavy(settings.module, settings.layout.size))
        self._leaves = ""  # name of what passes changed in spite of their trial
        seen = traces(settings, centre)
        if seen.draws:
            raise Unsupported(_drawing(settings.module, seen.draws))
        # if no pass changed or read anything, most generations skip checks that cost as much as a small pass
        self._careful = settings.device.type != "cpu" or seen.state is not None or has_caches(settings.module)
        self._renew_modules()
        self._closures, self._outputs = closures, None if closures is None else closures.outputs
        self._way, largest, products, self.slower = chosen_way(settings, centre, self._outputs)
        if self._large or is_heavy(settings.module):
            give_back_memory()  # memory that trials freed is fragmented, and no piece fits the next pass
        # keyed by sides and directions of a chunk, where the first way does not serve so many rows; all ranks find the same
        self._others: dict[tuple[int, int], Way | Unsupported] = {}
        self._choice = threading.Lock()
        self._length = self._chunk_length(largest, products)
        self._graphs = Graphs("forward passes") if settings.graphs and settings.device.type == "cuda" else None
        log.info(
            "scoring: %d members in one forward pass on %s, %d threads, %s, %s",
            self._length * self._sides,
            settings.device,
            settings.threads.count,
            str(settings.precision).removeprefix("torch."),
            str(settings.task.memory_format).removeprefix("torch."),
        )

    def _chunk_length(self, largest: int, products: int) -> int:
        """Return the number of directions of a chunk: a function of the model and the settings, never of ranks or clocks."""
        settings, sampler = self.settings, self.settings.sampler
        total = sampler.directions * self._sides * self.examples
        rows = chunk_rows(largest, settings.device, total)
        if settings.device.type == "cpu" and is_heavy(settings.module, settings.layout.size):
            rows = min(rows, -(-total // CHUNKS["cpu"]))  # few rows of a large network are enough for its products
        if self._large and settings.device.type == "cpu":
            rows = min(rows, LARGE_ROWS)
        length = max(1, min(rows // (self._sides * self.examples), sampler.directions))
        if not sampler.reuses_noise:
            length = min(length, dense_directions(settings.layout.size, settings.device))
            if settings.device.type == "cpu":
                length = min(length, shared_directions(sampler.directions, settings.layout.size, self._sides))
                length = min(length, product_directions(products * self.examples, self._sides))
        period = sampler.noise_period
        if period is not None:
            # a divisor: a chunk that crossed the border of two periods would need the noise of both
            length = max(divisor for divisor in range(1, min(length, period) + 1) if period % divisor == 0)
        return length

    def refuses(self, proposal: Proposal) -> str | None:
        """Return the reason for which the proposal cannot be scored so, or None."""
        reason = _whole(proposal)
        return None if isinstance(self.settings.sampler, Dense) else reason

    @unfused()
    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        refused = self._leaves or self.refuses(proposal)
        if part is not None or refused is not None:
            return self._one_by_one(proposal, generation, members, part, refused)
        self._prove(generation, proposal.bases[0])
        if self._leaves:
            return self._one_by_one(proposal, generation, members, None, self._leaves)
        self._generations += 1
        before = Generators()
        scores = self._in_chunks(proposal, generation, members)
        draws = before.drawn(lambda: self._in_chunks(proposal, generation, members))
        changed = self._changed()
        if draws:
            self._leaves = _drawing(self.module, draws)
        elif changed and self._careful:
            self._leaves = f"{changed} changes in a forward pass"
        elif changed:
            self._careful = True
            self._renew_modules()
        return self.scores(proposal, generation, members) if draws or changed else scores

    def _prove(self, generation: int, centre: Tensor) -> None:
        """Prove the way on all examples of a generation, once for each form of an example; all ranks find the same.

        Equal examples hide an exchange between members, so the first generation with unequal ones is tried again.
        """
        if not self._provable:
            return
        settings = self.settings
        first = self.task.batch(generation, 0, 1).inputs
        form = tuple(first.shape[1:]), first.dtype
        if (*form, True) in self._proven:
            return
        directions = 2 if settings.per_example else 1
        inputs = self.task.batch(generation, 0, min(directions * self.examples, settings.batch_size)).inputs
        unequal = bool((inputs != inputs[:1]).any())
        if (*form, unequal) in self._proven:
            return
        self._proven.add((*form, unequal))
        try:
            prove(settings, self._way, centre, generation, self._outputs)
        except Unsupported as error:
            if self._closures is not None:
                raise
            self._leaves = str(error)

    def _renew_modules(self) -> None:
        """Make a module for each thread; the parameters of all are views of one vector, the centre."""
        self._modules: queue.SimpleQueue[nn.Module] = queue.SimpleQueue()
        self._used = [self.settings.candidate(shared=self._centre).module for _ in range(self.settings.threads.count)]
        for module in self._used:
            self._modules.put(module)

    def _changed(self) -> str | None:
        """Name what passes changed in their modules, None where that is nothing."""
        if self._looked and self.settings.device.type != "cpu":  # comparing buffers there waits for the device
            return None
        self._looked = True
        return next(filter(None, (difference(self._centre.module, module) for module in self._used)), None)

    def _in_chunks(self, proposal: Proposal, generation: int, members: range) -> np.ndarray:
        settings, sampler = self.settings, self.settings.sampler
        out = np.empty((len(members), len(self.task.score_names)))
        first, last = (sampler.side(member)[0] for member in (members[0], members[-1]))
        with settings.clock.phase("sample"):
            base = proposal.bases[0]
            if not self._large:
                self._centre.flat.copy_(base)
            elif base.data_ptr() != self._centre.flat.data_ptr():
                self._centre = settings.candidate(flat=base)
                self._renew_modules()
            self._centre.ready()
            sampler.prepare(generation, range(first, last + 1))
        shared = None if settings.per_example else self.task.batch(generation, 0, self.examples)
        # addresses of a cluster's later peers begin beyond one population
        begin = 0 if last < sampler.directions else first

        def bounds(chunk: int) -> tuple[int, int]:
            low = begin + chunk * self._length
            return low, min(low + self._length, begin + sampler.directions)

        def own(chunk: int) -> range:
            low, high = bounds(chunk)
            return range(max(low * self._sides, members.start), min(high * self._sides, members.stop))

        def keep(chunk: int, sums: np.ndarray) -> None:
            low = bounds(chunk)[0] * self._sides
            by_member = sums.swapaxes(0, 1).reshape(-1, sums.shape[-1])  # both sides of a direction side by side
            # a chunk is computed completely; this rank takes the rows of its own members
            a, b = own(chunk).start, own(chunk).stop
            out[a - members.start : b - members.start] = by_member[a - low : b - low]

        failed: dict[int, str] = {}

        def run(chunk: int) -> Tensor | None:
            failed.pop(chunk, None)  # a first try failed
            try:
                return self._served(generation, *bounds(chunk), proposal, shared)
            except Exception as error:  # any kind: the module's own, or the fitness's, which single members raise again
                if self._closures is not None:  # single members would have other scores: the caller falls back
                    raise
                failed[chunk] = f"{type(self.module).__name__}: {brief(error)}"
                return None

        chunks = range((first - begin) // self._length, (last - begin) // self._length + 1)
        if settings.device.type == "cpu":

            def fill(chunk: int) -> None:
                sums = run(chunk)
                if sums is not None:
                    keep(chunk, sums.numpy())

            settings.threads.passes(fill, chunks, wrote=self.writes(self._used))
        else:
            # a device works on one chunk while the next one is put together: nothing waits for it before all are under way
            result = [(chunk, run(chunk)) for chunk in chunks]
            with settings.clock.phase("forward"):
                for chunk, sums in result:
                    if sums is not None:
                        keep(chunk, sums.cpu().numpy())
        for chunk, reason in sorted(failed.items()):
            mine = own(chunk)
            scores = self._one_by_one(proposal, generation, mine, None, reason)
            out[mine.start - members.start : mine.stop - members.start] = scores
        return out

    def _one_by_one(
        self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None, reason: str | None
    ) -> np.ndarray:
        if part is None:
            self.settings.say_slower(str(reason))
        self._single = self._single or MemberScorer(self.settings, proposal.bases[0])
        return self._single.scores(proposal, generation, members, part)

    def _served(self, generation: int, low: int, high: int, proposal: Proposal, shared: Batch | None) -> Tensor:
        """Return the sums (S, D, C) of directions by the first way that takes so many. Raises whatever the module raises."""
        # members with parents of their own are no pairs
        rows = (1, (high - low) * self._sides) if proposal.has_parents else (self._sides, high - low)
        while True:
            way = self._way_of(rows)
            if isinstance(way, Unsupported):
                raise way
            try:
                return self._chunk(way, generation, low, high, proposal, shared)
            except NeedsCare as error:
                log.info("tensors are followed in every generation: %s", error)
                self._careful = True
            except Unsupported as error:
                log.info("not by %s: %s", way, error)
                with self._choice:
                    if self._others.get(rows, self._way) is way:  # otherwise another thread has tried it
                        following = self._tried(rows[0], after=way)
                        self._others[rows] = error if isinstance(following, Unsupported) else following

    def _way_of(self, rows: tuple[int, int]) -> Way | Unsupported:
        """Return the way of chunks of so many sides and directions; the first one without pairs waits for a trial of its own."""
        with self._choice:
            if rows not in self._others and rows[0] != self._sides:
                self._others[rows] = self._tried(rows[0])
            return self._others.get(rows, self._way)

    def _tried(self, sides: int, after: Way | None = None) -> Way | Unsupported:
        """Return the first way, or the first ``after`` one, that passes a trial; the error where none does."""
        try:
            return chosen_way(self.settings, self._centre.flat, self._outputs, after, sides).way
        except Unsupported as error:
            return error

    def _chunk(self, way: Way, generation: int, low: int, high: int, proposal: Proposal, shared: Batch | None) -> Tensor:
        """Return the sums (S, D, C) of directions [low, high)."""
        start = time.perf_counter()
        settings, whole = self.settings, _whole(proposal) is not None
        sigma = 1.0 if whole else proposal.sigma
        rows = MemberBatch([sigma, -sigma][: self._sides], high - low, self.examples)
        perturbation: Perturbation = settings.sampler.perturbation(generation, low, rows, settings.precision)
        if whole:
            assert isinstance(perturbation, DensePerturbation)
            members = np.arange(low * self._sides, high * self._sides).reshape(-1, self._sides).T.ravel()
            perturbation = perturbation.without_pairs() if proposal.has_parents else perturbation
            perturbation = perturbation.changed(lambda noise: proposal.steps(noise, members))
        elif proposal.layers is not None:
            perturbation = LayerScaled(perturbation, proposal.layers.factors)
        drawn = time.perf_counter()
        batch = (shared or self.task.batch(generation, low * self.examples, high * self.examples)).to(settings.precision)
        times = perturbation.rows.count // len(batch.targets)
        # without repetition the sides share their input, and the first layers work on it once
        inputs = repeated(batch.inputs, times if way.repeats_sides else times // len(perturbation.rows.scales))
        # a module may write to its input, and a fitness to its targets: those of a chunk alone
        given = Batch(unshared(inputs, batch.inputs), unshared(repeated(batch.targets, times), batch.targets))
        sums = self._passed(way, perturbation, given)
        settings.clock.add("sample", drawn - start, settings.threads.count)
        settings.clock.add("forward", time.perf_counter() - drawn, settings.threads.count)
        return sums

    def _passed(self, way: Way, perturbation: Perturbation, batch: Batch) -> Tensor:
        """Return :meth:`_sums`, by a graph where that is wanted."""
        drawn = perturbation.drawn()
        if self._graphs is None:
            return self._sums(way, perturbation, batch)
        if drawn is None:
            return self._graphs.without("this sampler makes noise within them", lambda: self._sums(way, perturbation, batch), [])
        first, other = drawn

        def again(noise: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
            return self._sums(way, other(noise), Batch(inputs, targets))

        rows = perturbation.rows
        return self._graphs(
            (str(way), tuple(rows.scales), rows.directions, rows.examples), again, [first, batch.inputs, batch.targets]
        )

    def _sums(self, way: Way, perturbation: Perturbation, batch: Batch) -> Tensor:
        """Return the sums (S, D, C) of the directions of ``perturbation``, by the module as it lies in the centre."""
        rows, module = perturbation.rows, self._modules.get()
        watched = self._generations <= WATCHED or self._generations % WATCHED == 0
        careful = self._careful or watched or way.forward is MappedForward
        with_mark([batch.inputs, batch.targets])
        try:
            guard = Unwritten(self._centre.flat) if self._large else nullcontext()
            with torch.no_grad(), guard, way.forward(module, self.settings.layout, perturbation, careful) as forward:
                if self._closures is None:
                    scores = self.task.example_scores(module, batch)
                    refuse_order(scores, lambda: "a score")
                else:
                    outputs = self._closures.outputs(module, batch)
                    with forward.left():
                        scores = self._closures.scores_of(module, outputs, len(batch.targets))
        finally:
            self._modules.put(module)
        return scores.view(self._sides, -1, rows.examples, scores.shape[-1]).sum(2, dtype=torch.float64)


def _drawing(module: nn.Module, generators: list[str]) -> str:
    return f"{type(module).__name__} draws random numbers ({', '.join(generators)}) in a forward pass"


def _whole(proposal: Proposal) -> str | None:
    """Return the reason for which members need their steps as vectors, None where a layer's noise has one scale."""
    if proposal.has_parents:
        return "the members have different parents"
    if proposal.transform is not None:
        return "the noise of a member is transformed as a whole"
    if proposal.scale.numel() > 1 and proposal.layers is None:
        return "every parameter has a step size of its own"
    return None


def unshared(tensor: Tensor, kept: Tensor) -> Tensor:
    """Copy ``tensor`` where it is ``kept`` itself, which a module must not write to."""
    return tensor.clone() if tensor is kept else tensor
