"""Chromosome updates (CU): every rank computes the complete sum for its slice of the columns; slices are gathered.

DarwiNN (Malik, Petrica, Kapre, Blott, GECCO '20 Companion), Algorithm 1: P fitnesses and M sums cross the wire, half
as many as semi-updates need. A rank draws P * M / N numbers of noise. The optimizer steps on the gathered gradient on every
rank, so that any optimizer works, also one that needs complete tensors.

``wire``: float32 | bfloat16 | int8, with error feedback. Rounding is by column, so that a run has the same bits on any number
of ranks. ``overlap``: a slice is sent in pieces, each while the next one is summed; no bit changes.
"""

import logging

import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, State
from neuro_cli.core.checks import boolean, one_of
from neuro_cli.core.philox import TILE
from neuro_cli.distribution.base import Distribution, PopulationContext
from neuro_cli.distribution.codec import WIRES, codec_of, slices, unpack
from neuro_cli.distribution.error_feedback import Feedback, by_rank, check_wire, gather_columns, unsent
from neuro_cli.fabric.collectives import begin_gather
from neuro_cli.fabric.shares import shares

log = logging.getLogger(__name__)

PIECE = 1 << 19  # bytes of a slice in one message where exchange and sums overlap


class ChromosomeUpdates(Distribution):
    """Method where each rank sums over all members for its M / N columns; the slices are gathered.

    ``wire`` of the slices: float32 | bfloat16 | int8. ``overlap``: True sends a slice in pieces. Raises ConfigError.
    """

    name = "chromosome_updates"

    def __init__(self, wire: str = "float32", overlap: bool = False) -> None:
        self.wire = one_of("distribution.wire", wire, WIRES)
        self._codec = codec_of(wire)
        self.overlap = boolean("distribution.overlap", overlap)

    def bind(self, job: PopulationContext) -> None:
        super().bind(job)
        self._slices = slices(job.columns, job.world.size, self._codec.block)
        self._start, self._stop = self._slices[job.world.rank]
        self._feedback = Feedback(self._codec, self._stop - self._start)
        self.sums_columns = self._codec.exact  # errors of rounding are of a rank's slice of all columns

    def _pieces(self, start: int, stop: int) -> list[tuple[tuple[int, int], ...]]:
        """Return the columns that all ranks send at once, one tuple after the other."""
        own = [(start + low, start + high) for low, high in slices(stop - start, self.job.world.size, self._codec.block)]
        longest = max(self._codec.size(1, high - low) for low, high in own)
        count = -(-longest // PIECE) if self.overlap else 1
        return list(zip(*(pieces(low, high, count) for low, high in own), strict=True))

    def check(self) -> None:
        super().check()
        check_wire(self.job, self.wire)

    def combine(self, generation: int, combination: Combination, start: int = 0, stop: int | None = None) -> Tensor:
        job, codec, rows = self.job, self._codec, len(combination.weights)
        stop = job.columns if stop is None else stop
        sent = self._pieces(start, stop)
        under_way = []
        for piece in sent:
            low, high = piece[job.world.rank]
            own = self.partial_sums(generation, combination, range(job.population), low, high)
            with job.clock.phase("communicate"):
                message = self._feedback.encode(own, low - self._start)
                under_way.append(begin_gather(job.world, message, [codec.size(rows, b - a) for a, b in piece], self.overlap))
                for exchange in under_way:
                    exchange.test()  # MPI moves data only while it is called
        with job.clock.phase("communicate"):
            sums = torch.empty(rows, stop - start, device=own.device, dtype=torch.float32)
            for piece, exchange in zip(sent, under_way, strict=True):
                unpack(codec, exchange.wait(), [(low - start, high - start) for low, high in piece], sums)
        return sums

    def state(self) -> State:
        if self._feedback.kept is None:
            return State()
        kept = gather_columns(self.job.world, self._feedback.kept, self._slices)
        return State() if kept is None else State({"unsent": kept})

    def restore(self, state: State) -> None:
        if "unsent" not in state.tensors:
            return
        if by_rank(state):
            message = "the rounding errors of %d ranks continue as one sum: the run's numbers depend on this change"
            log.warning(message, by_rank(state))
        self._feedback.kept = unsent(state)[:, self._start : self._stop].clone().to(self.job.algo.centre.device)


def pieces(start: int, stop: int, count: int) -> list[tuple[int, int]]:
    """Split [start, stop) into ``count`` pieces at borders of the noise's tiles, so that no tile is generated twice."""
    first, last = start // TILE, -(-stop // TILE)
    cuts = [min(max((first + low) * TILE, start), stop) for low, _ in shares(last - first, count)]
    return list(zip(cuts, [*cuts[1:], stop], strict=True))
