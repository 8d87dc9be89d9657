"""Semi-updates (SU): every rank sums the perturbations of its own members over all columns; the sums are all-reduced.

Lenc, Elsen, Schaul, Simonyan 2019 (arXiv 1906.03139); DarwiNN measures chromosome updates against it. ``ranks_shaping``:

- ``global``: fitnesses are gathered first and shaped together; the centre is that of the other methods.
- ``local``: the published variant, an approximation. Each rank shapes its own members' fitnesses, the updates are averaged by
  members, and no fitness is gathered; the result depends on N.

``wire``: float32 | bfloat16 | int8. Rounded sums are reduced in two steps, each with error feedback: every rank sends each
slice of its sums to the slice's owner, which adds them up in the order of the ranks; the slices of the result are gathered.
"""

import logging
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import WORST, Combination, State
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.base import Distribution, PopulationContext, StepReport
from neuro_cli.distribution.codec import WIRES, codec_of, slices, unpack
from neuro_cli.distribution.error_feedback import Feedback, by_rank, check_wire, gather_columns, unsent
from neuro_cli.distribution.finite import candidate_error, first_bad, ranked_last
from neuro_cli.fabric.collectives import begin_gather, exchanged, summed
from neuro_cli.fabric.shares import shares

log = logging.getLogger(__name__)


class SemiUpdates(Distribution):
    """Method where each rank sums over its own members for all M columns; the sums (K, M) are all-reduced.

    ``ranks_shaping``: global | local. ``wire`` of the sums: float32 | bfloat16 | int8. Raises ConfigError.
    """

    name = "semi_updates"  # sums all columns at once: an MPI library may add up a short message in another order than a long one

    def __init__(self, ranks_shaping: str = "global", wire: str = "float32") -> None:
        self.ranks_shaping = one_of("distribution.ranks_shaping", ranks_shaping, ("global", "local"))
        self.gathers = self.ranks_shaping == "global"
        self.wire = one_of("distribution.wire", wire, WIRES)
        self._codec = codec_of(wire)

    def bind(self, job: PopulationContext) -> None:
        super().bind(job)
        self._slices = slices(job.columns, job.world.size, self._codec.block)
        self._start, self._stop = self._slices[job.world.rank]
        self._own = Feedback(self._codec, job.columns)
        self._total = Feedback(self._codec, self._stop - self._start)

    def check(self) -> None:
        super().check()
        check_wire(self.job, self.wire)
        if self.gathers:
            return
        if not self.algo.can_shape_parts():
            raise ConfigError("distribution.ranks_shaping", "local", "the algorithm selects among all members; use global")
        cut = any(low % 2 for low, _ in shares(self.job.population, self.job.world.size))
        if self.algo.needs_pairs and cut:
            allowed = f"the algorithm compares pairs, which {self.job.world.size} ranks would part: choose an even share for each"
            raise ConfigError("population", self.job.population, allowed)

    def combine(self, generation: int, combination: Combination, start: int = 0, stop: int | None = None) -> Tensor:
        assert start == 0
        assert stop is None
        return self._reduced(self.partial_sums(generation, combination, self.members, 0, self.job.columns))

    def _reduced(self, own: Tensor) -> Tensor:
        with self.job.clock.phase("communicate"):
            return summed(self.job.world, own) if self._codec.exact else self._reduced_rounded(own)

    def _reduced_rounded(self, own: Tensor) -> Tensor:
        """Reduce the sums (K, M) of all ranks; ``own`` (K, M) is overwritten."""
        world, codec, width = self.job.world, self._codec, self._stop - self._start
        # first step: each rank gets everyone's rounded sums of its own slice, and adds them up in float32
        received = exchanged(world, [self._own.encode(own[:, low:high], low) for low, high in self._slices])
        total = torch.zeros(len(own), width, device=own.device, dtype=torch.float32)
        for part in received:
            total += codec.decode(part, len(own), width)
        # second step: the slices' totals are rounded again, with another error feedback, and gathered
        message = self._total.encode(total, 0)
        counts = [codec.size(len(own), high - low) for low, high in self._slices]
        unpack(codec, begin_gather(world, message, counts, overlap=False).wait(), self._slices, own)
        return own

    def state(self) -> State:
        own, total, world = self._own.kept, self._total.kept, self.job.world
        if own is None or total is None:
            return State()
        kept = gather_columns(world, total, self._slices)
        everyone = world.gather(own.cpu().numpy().ravel(), [own.numel()] * world.size)
        if kept is None or everyone is None:
            return State()
        return State({"unsent": kept, "unsent_by_rank": torch.from_numpy(everyone).view(world.size, *own.shape)})

    def restore(self, state: State) -> None:
        if "unsent" not in state.tensors:
            return
        same = by_rank(state) == self.job.world.size
        if not same:
            where = f"{by_rank(state)} ranks" if by_rank(state) else "chromosome_updates"
            message = "the rounding errors of %s continue as one sum: the run's numbers depend on this change"
            log.warning(message, where)
        device = self.job.algo.centre.device
        total = state.tensors["unsent"] if same else unsent(state)
        self._total.kept = total[:, self._start : self._stop].clone().to(device)
        # other ranks: the errors of all become one sum in the slices' feedback, and ranks begin without their own
        own = state.tensors["unsent_by_rank"][self.job.world.rank] if same else torch.zeros_like(total)
        self._own.kept = own.clone().to(device)

    def step(self, generation: int) -> StepReport:
        if self.gathers:
            return super().step(generation)
        return self._learn_locally(generation, self.own_scores(generation, self.algo.ask(generation)).astype(np.float64))

    def tell(self, generation: int, own: np.ndarray) -> StepReport:
        if self.gathers:
            return super().tell(generation, own)
        return self._learn_locally(generation, own.astype(np.float64))

    def _learn_locally(self, generation: int, scores: np.ndarray) -> StepReport:
        """Move the centre by the mean scores (n, C) of this rank's members, shaped on each rank by itself."""
        job, algo, members = self.job, self.algo, self.members
        agreed = self._agree(generation, scores, algo.non_finite)
        fitness = ranked_last(scores[:, 0], np.isfinite(scores).all(axis=1), agreed.least)
        with job.clock.phase("update"):
            part = algo.combination(generation, fitness)
            # partial_sums takes weights of all members; each rank's estimate counts by its share of them
            weights = np.zeros((len(part.weights), job.population))
            share = len(members) / job.population
            weights[:, members.start : members.stop] = part.weights * share
            everyone = Combination(weights, part.moments, None if part.unit is None else part.unit * share)
        sums = self._reduced(self.partial_sums(generation, everyone, members, 0, job.columns))
        with job.clock.phase("update"):
            algo.tell(generation, sums)
        return self.report(generation, agreed.best, agreed.means, agreed.members)

    def _agree(self, generation: int, scores: np.ndarray, non_finite: str) -> "_Agreed":
        """Agree on the scores over all ranks; all of them raise for a fitness that is not finite, or where none is."""
        job = self.job
        bad, finite = first_bad(scores), scores[np.isfinite(scores).all(axis=1)]
        first = (self.members.start + bad[0] + 1, *bad[1:]) if bad else (0, 0, 0.0)  # 0: none; a simulated world gives zeros
        best, least = (finite[:, 0].max(), finite[:, 0].min()) if len(finite) else (-np.inf, np.inf)
        own = np.concatenate([finite.sum(axis=0), [best, least, len(scores) - len(finite), *first]])
        with job.clock.phase("communicate"):
            table = job.world.all_gather(own, [len(own)] * job.world.size).reshape(job.world.size, -1)
        members = job.population - int(table[:, -4].sum())
        for number, column, value in table[:, -3:]:
            if number and (non_finite != WORST or not members):
                raise candidate_error(job.scorer.task, f"member {int(number) - 1}", generation, int(column), float(value))
        best, least = table[:, -6].max(), table[:, -5].min()
        return _Agreed(float(best), float(least), table[:, :-6].sum(axis=0) / members, members)


class _Agreed(NamedTuple):
    """Best and least fitness, and mean scores (C,), over the ``members`` of all ranks with finite ones."""

    best: float
    least: float
    means: np.ndarray
    members: int
