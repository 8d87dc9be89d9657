"""Optimizer of the centre, with decay of weights; it sees the centre as tensors of the model's shapes."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from neuro_cli.algo.base import CentreAlgorithm, State
from neuro_cli.algo.centre.average import follow
from neuro_cli.algo.centre.torch_optimizer import OptimizerFactory, ScheduledOptimizer, class_of, with_rate
from neuro_cli.algo.step_size.by_size import by_size
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import LARGE, ParameterLayout, Place
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.rounding import Rounding
from neuro_cli.core.schedule import Schedule

# steps by classes of optimizers that move each number by itself, so that pieces of a parameter may be stepped one by one
BY_VALUE = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adamax)
SIGMA, RATE = 0.05, 0.02  # defaults for networks of up to 11,274 parameters
ROWS = 256  # a piece has a multiple of so many rows, as pieces of sums do
PIECE = 2**20  # least numbers that a thread steps by itself


def _length(size: int) -> int:
    """Return the least numbers of a span: a share of the centre, since memory for their sums is needed."""
    return max(PIECE, min(2**24, size // 16))


def _pieces(layout: ParameterLayout, split: bool, length: int) -> list[list[Place]]:
    """Return each parameter in pieces of some rows where it is a large one to ``split``; rows are multiples of those of sums.

    A piece of more than one step of rows has at most ``length`` numbers.
    """
    pieces = list[list[Place]]()
    for place in layout.places:
        size = place.stop - place.start
        if not split or size <= length or len(place.shape) == 4:
            pieces.append([place])
            continue
        width = size // place.shape[0]
        step = max(1, length // (width * ROWS)) * ROWS * width
        bounds = [*range(place.start, place.stop, step), place.stop]
        pieces.append([Place(place.name, low, high, ((high - low) // width, *place.shape[1:])) for low, high in pairwise(bounds)])
    return pieces


class CentreOptimizer:
    """Centre (M,) with its optimizer, which steps it along a gradient (M,); torch minimises, so it sees the negative.

    A centre in bfloat16, which this object takes over, needs a ``rounding``. The optimizer then steps float32 copies of its
    tensors, one after the other where it can, and its states are float32.

    ``average`` in [0, 1): share of the past in an average of the centres (:mod:`neuro_cli.algo.centre.average`), 0: no average.
    Steps write to ``centre`` itself. Raises ConfigError.
    """

    def __init__(
        self,
        factory: OptimizerFactory,
        schedule: Schedule,
        centre: Tensor,
        layout: ParameterLayout,
        factors: Sequence[float] | None = None,
        average: float = 0.0,
    ) -> None:
        self.rounding: Rounding | None = None
        self.threads: Threads | None = None  # step pieces side by side
        self._room: Tensor | None = None
        exact = centre.dtype != torch.bfloat16
        self._share = average
        if self._share and not exact:
            raise ConfigError("algo.average", average, "must be 0 with weights in bfloat16, whose steps an average would lose")
        self.centre = centre.clone() if self._share else centre  # what is given may be the memory of the module to load
        self.average = centre.clone() if self._share else None
        length = PIECE if centre.device.type == "cpu" else _length(layout.size)
        pieces = _pieces(layout, layout.size >= LARGE and class_of(factory) in BY_VALUE, length)
        self._pieces = [piece for of_one in pieces for piece in of_one]
        self._parameters = [nn.Parameter(piece.view(self.centre) if exact else _unused(piece, centre)) for piece in self._pieces]
        counts = [len(of_one) for of_one in pieces]
        self._optimizer = ScheduledOptimizer(factory, schedule, self._parameters, factors=factors, parts=counts)
        self._large = len(self._pieces) > len(pieces)
        self._starts = [piece.start for piece in self._pieces]

    def rate_at(self, generation: int) -> float:
        """Return the learning rate of the centre's optimizer in a generation."""
        return self._optimizer.rate_at(generation)

    def ascend(self, generation: int, gradient: Tensor, decay: float = 0.0, more: float = 1.0) -> None:
        """Step along ``gradient`` - ``decay`` * centre, with the generation's learning rate times ``more``.

        ``gradient`` (M,) is overwritten: with millions of parameters every copy adds to the peak memory.
        """
        for low, high in self.spans or [(0, len(self.centre))]:
            self.ascend_span(generation, gradient[low:high], low, decay, more)

    @property
    def spans(self) -> list[tuple[int, int]] | None:
        """Columns [start, stop) that can be stepped one after the other: pieces of a large centre; None where steps need all."""
        if not self._large:
            return None
        found, start = list[tuple[int, int]](), 0
        for piece in self._pieces:
            if piece.stop - start >= _length(self.centre.numel()) or piece is self._pieces[-1]:
                found.append((start, piece.stop))
                start = piece.stop
        return found

    def ascend_span(self, generation: int, gradient: Tensor, start: int, decay: float = 0.0, more: float = 1.0) -> None:
        """Take :meth:`ascend` for the columns from ``start`` on, as many as ``gradient`` (n,) has: all, or one of the spans."""
        stop = start + len(gradient)
        if self.rounding is not None and (self._room is None or len(self._room) < len(gradient)):
            # one memory for all spans: the C library would reuse none
            self._room = torch.empty(len(gradient), dtype=torch.float32, device=self.centre.device)

        def step(numbers: range) -> None:
            """Step the pieces of these numbers, one after the other in memory."""
            low, high = self._pieces[numbers[0]].start, self._pieces[numbers[-1]].stop
            centre, own = self.centre[low:high], slice(low - start, high - start)
            if self.rounding is None:
                self._step(generation, numbers, gradient[own], centre, decay, more)
            else:
                assert self._room is not None
                exact = self._room[own].copy_(centre)
                self._step(generation, numbers, gradient[own], exact, decay, more)
                self.rounding.store(exact, generation, low, self.centre)
            if self.average is not None:
                follow(self.average[low:high], centre, self._share, generation)

        last = bisect_left(self._starts, stop) if stop < len(self.centre) else len(self._pieces)  # one without numbers too
        own = range(bisect_left(self._starts, start), last)
        if self.threads is None or not self._large or self.centre.device.type != "cpu":
            step(own)
        else:
            self.threads.map(step, self._parts(own))

    def _parts(self, own: range) -> list[range]:
        """Return the numbers of pieces in parts of PIECE numbers at least, but for the last one."""
        parts, first = list[range](), own.start
        for number in own:
            if self._pieces[number].stop - self._starts[first] >= PIECE or number == own[-1]:
                parts.append(range(first, number + 1))
                first = number + 1
        return parts

    def _step(self, generation: int, numbers: range, gradient: Tensor, centre: Tensor, decay: float, more: float) -> None:
        """Step the pieces of these numbers, whose columns are float32 in ``centre`` (n,), along ``gradient`` (n,)."""
        gradient.neg_()
        if decay:
            gradient.add_(centre, alpha=decay)
        start, own = self._starts[numbers[0]], self._parameters[numbers.start : numbers.stop]
        for parameter, piece in zip(own, self._pieces[numbers.start : numbers.stop], strict=True):
            columns = slice(piece.start - start, piece.stop - start)
            parameter.grad = piece.view_of(gradient[columns])
            if self.rounding is not None:
                parameter.data = piece.view_of(centre[columns])
        self._optimizer.step(generation, more, own)
        if self.rounding is not None:
            for parameter, piece in zip(own, self._pieces[numbers.start : numbers.stop], strict=True):
                parameter.data = _unused(piece, centre)

    def state(self) -> State:
        state = self._optimizer.state()
        state.tensors["centre"] = self.centre.clone()
        if self.average is not None:
            state.tensors["average"] = self.average.clone()
        return state

    def restore(self, state: State) -> None:
        self.centre.copy_(state.tensors["centre"])
        if self.average is not None:
            self.average.copy_(state.tensors["average"])
        self._optimizer.restore(state)


def _unused(place: Place, like: Tensor) -> Tensor:
    """Return a float32 tensor in the shape and memory order of ``place`` whose numbers are never used; most take no memory."""
    if len(place.shape) == 4:  # states are laid out like their parameter, and an expanded one shows the usual order alone
        return place.view_of(torch.empty(place.stop - place.start, device=like.device, dtype=torch.float32))
    return torch.zeros((), device=like.device, dtype=torch.float32).expand(place.shape)


class OptimizedCentre(CentreAlgorithm):
    """Base of the algorithms with a centre and its optimizer as their only state; ``start`` sets ``_optimizer``."""

    _optimizer: CentreOptimizer
    _factory: OptimizerFactory
    _sigma_given: float | None = None  # None: by size
    _rate_given: float | None = None

    def sigma_for(self, layout: ParameterLayout) -> float:
        """Return the sigma that was given or chosen, else the one by size."""
        return by_size(SIGMA, layout.size) if self._sigma_given is None else self._sigma_given

    def factory_for(self, layout: ParameterLayout) -> OptimizerFactory:
        """Return the optimizer's factory; a rate that it leaves open is the chosen one, else the one by size."""
        return with_rate(self._factory, by_size(RATE, layout.size) if self._rate_given is None else self._rate_given)

    def begin_with(
        self, sigma: float, rate: float | None, centre: Tensor, layout: ParameterLayout, population: int, seed: int
    ) -> None:
        """Begin again at ``centre`` by values that were open. ``rate`` None: as given, or by size."""
        self._sigma_given, self._rate_given, before = sigma, rate, self._optimizer
        self.start(centre, layout, population, seed)
        self._optimizer.rounding, self._optimizer.threads = before.rounding, before.threads

    def round_by(self, rounding: Rounding) -> None:
        self._optimizer.rounding = rounding

    def step_by(self, threads: Threads) -> None:
        self._optimizer.threads = threads

    @property
    def optimizer(self) -> str:
        kind = class_of(self._factory)
        return str(getattr(kind, "__name__", type(kind).__name__))

    @property
    def centre(self) -> Tensor:
        return self._optimizer.centre

    @property
    def solution(self) -> Tensor:
        average = self._optimizer.average
        return self.centre if average is None else average

    def rate_at(self, generation: int) -> float:
        return self._optimizer.rate_at(generation)

    def state(self) -> State:
        return self._optimizer.state()

    def restore(self, state: State) -> None:
        self._optimizer.restore(state)
