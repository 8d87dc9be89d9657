"""Optimizers of ``torch.optim`` over the flat centre, which they see as tensors of the model's shapes.

Any class of ``torch.optim`` works if its step needs no closure and takes dense gradients, matrix optimizers included.
"""

import copy
import inspect
import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, islice, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.auto import AUTO
from neuro_cli.algo.base import CentreAlgorithm, State
from neuro_cli.algo.by_size import by_size
from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import LARGE, ParameterLayout, Place
from neuro_cli.core.rounding import Rounding
from neuro_cli.core.schedule import CONSTANT, Schedule

OptimizerFactory = Callable[..., torch.optim.Optimizer]

# steps by classes of optimizers that move each number by itself, so that pieces of a parameter may be stepped one by one
BY_VALUE = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adamax)
SIGMA, RATE = 0.05, 0.02  # defaults for networks of up to 11,274 parameters
STEPS = 5  # of an optimizer that is not torch's, in which it is seen whether each draws random numbers
ROWS = 256  # a piece has a multiple of so many rows, as pieces of sums do


def _fused(factory: OptimizerFactory) -> OptimizerFactory:
    """Choose the class's fused step, which needs no temporaries, if it has one and the config asks for no other."""
    kind = _kind(factory)
    chosen = factory.keywords if isinstance(factory, partial) else {}
    if (
        kind not in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
        or {"fused", "foreach", "differentiable"} & chosen.keys()
    ):
        return factory
    return partial(factory, fused=True)


def _kind(factory: OptimizerFactory) -> Any:
    return factory.func if isinstance(factory, partial) else factory


def with_rate(factory: OptimizerFactory, rate: float) -> OptimizerFactory:
    """Set the learning rate ``rate`` if ``factory`` leaves it open (lr=None, or auto)."""
    if not isinstance(factory, partial) or factory.keywords.get("lr", rate) not in (None, AUTO):
        return factory
    return partial(factory.func, *factory.args, **{**factory.keywords, "lr": rate})


def _leave_compiler_out() -> None:
    """Keep ``torch.optim`` from importing torch's compiler, which costs 150 MB per rank and two seconds."""
    for method in vars(torch.optim.Optimizer).values():
        if hasattr(method, "__wrapped__"):
            inner = inspect.unwrap(method)
            inner.__dynamo_disable = inner  # torch._compile checks this attribute before it imports


def _small(parameter: nn.Parameter) -> nn.Parameter:
    """Return a parameter of one number, with a gradient, in as many dimensions as ``parameter``."""
    small = nn.Parameter(torch.ones([1] * parameter.dim(), dtype=parameter.dtype, device=parameter.device))
    small.grad = torch.ones_like(small)
    return small


def _of_group(group: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of an optimizer's ``group`` that its steps may change: neither parameters nor the rate, which is set."""
    return {name: value for name, value in group.items() if name not in ("params", "lr")}


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, Tensor):
        return isinstance(other, Tensor) and torch.equal(value, other)
    return bool(value == other)


def _positions() -> dict[str, Any]:
    """Return the states of the global generators, by library."""
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": repr(np.random.get_state(legacy=False)),
        "Python": random.getstate(),
    }


class ScheduledOptimizer:
    """Optimizer of ``torch.optim`` over ``parameters``, with scheduled learning rates. ``key`` names it in errors.

    ``factors`` on the learning rate of each parameter, None: all are 1. Parameters with one factor are one optimizer group.
    ``parts``: how many parameters in turn are pieces of one, rows after rows, and one in a state; None: each is one.
    ``tried``: whether the class is known to step and to resume, so that nothing is tried.
    """

    def __init__(
        self,
        factory: OptimizerFactory,
        schedule: Schedule,
        parameters: list[nn.Parameter],
        key: str = "algo.optimizer",
        factors: Sequence[float] | None = None,
        parts: Sequence[int] | None = None,
        tried: bool = False,
    ) -> None:
        groups: dict[float, list[nn.Parameter]] = {}
        wholes: dict[float, list[int]] = {}
        given, parts = iter(parameters), parts or [1] * len(parameters)
        for count, factor in zip(parts, factors or [1.0] * len(parts), strict=True):
            groups.setdefault(factor, []).extend(islice(given, count))
            wholes.setdefault(factor, []).append(count)
        self._schedule, self._parameters = schedule, [parameter for group in groups.values() for parameter in group]
        # places among them of the pieces of each parameter
        bounds = [0, *accumulate(count for group in wholes.values() for count in group)]
        self._wholes = [range(low, high) for low, high in pairwise(bounds)]
        _leave_compiler_out()
        if isinstance(factory, partial) and "lr" in factory.keywords:
            number(f"{key}.lr", factory.keywords["lr"], low=0.0)
        try:
            self._optimizer = _fused(factory)([{"params": group} for group in groups.values()])
        except Exception as error:  # an optimizer may be the user's own
            raise UserError(f"{key}: {error}") from error
        if "lr" not in self._optimizer.defaults:
            raise ConfigError(key, type(self._optimizer).__name__, "it has no learning rate lr, which schedules set")
        self._step = inspect.unwrap(type(self._optimizer).step)
        self._first = copy.deepcopy([_of_group(group) for group in self._optimizer.param_groups])
        if not tried:
            self._try(factory, [[_small(parameter) for parameter in group] for group in groups.values()], key)
        self._rate = float(self._optimizer.param_groups[0]["lr"])
        self._rates = [float(group["lr"]) * factor for group, factor in zip(self._optimizer.param_groups, groups, strict=True)]

    def _try(self, factory: OptimizerFactory, groups: list[list[nn.Parameter]], key: str) -> None:
        """Try steps of small parameters with gradients alone, as all steps will be, and of a resumed copy of classes not torch's.

        Raises ConfigError where they fail, draw from a global generator, or differ.
        """
        name = type(self._optimizer).__name__
        foreign = not type(self._optimizer).__module__.startswith("torch.optim")
        states = [_positions() if foreign else {}]
        try:
            with torch.no_grad():
                stepped = _fused(factory)([{"params": group} for group in groups])
                for _ in range(STEPS if foreign else 1):
                    self._step(stepped)
                    states.append(_positions() if foreign else {})
        except Exception as error:  # an optimizer may be the user's own
            reason = " ".join(str(error).split())
            raise ConfigError(key, name, f"takes no step from dense gradients alone ({reason})") from error
        # another thread may draw meanwhile, but hardly in each of the steps
        drawn = [library for library in states[0] if all(one[library] != other[library] for one, other in pairwise(states))]
        if drawn:
            reason = f"its step draws from the global generator of {drawn[0]}, so ranks and resumed runs would differ"
            raise ConfigError(key, name, reason)
        if foreign:
            try:
                self._try_resume(factory, key, name)
            except ConfigError:
                raise
            except Exception as error:
                reason = " ".join(str(error).split())
                raise ConfigError(key, name, f"its state cannot be stored and restored ({reason})") from error

    def _try_resume(self, factory: OptimizerFactory, key: str, name: str) -> None:
        """Raise ConfigError unless steps after :meth:`restore` are those of an optimizer that never stopped."""

        def small() -> list[nn.Parameter]:
            return [nn.Parameter(torch.ones([2] * parameter.dim())) for parameter in self._parameters]

        def steps(stepped: ScheduledOptimizer, parameters: list[nn.Parameter], start: int) -> None:
            for time in range(start, start + 3):
                for parameter in parameters:
                    parameter.grad = (torch.arange(1.0, 1 + parameter.numel()) * (time + 1)).cos().view_as(parameter)
                stepped.step(0)

        kept, again = small(), small()
        first, second = (ScheduledOptimizer(factory, CONSTANT, each, key, tried=True) for each in (kept, again))
        steps(first, kept, 0)
        state = first.state()
        for entry, value in state.scalars.items():
            try:
                json.dumps(value)
            except TypeError as error:
                entry = entry.removeprefix("optimizer.").partition(".")[2]
                raise ConfigError(key, name, f"no checkpoint holds its {entry}, a {type(value).__name__}") from error
        with torch.no_grad():
            for parameter, other in zip(again, kept, strict=True):
                parameter.copy_(other)
        second.restore(state)
        steps(first, kept, 3)
        steps(second, again, 3)
        if not all(torch.equal(one, other) for one, other in zip(kept, again, strict=True)):
            raise ConfigError(
                key, name, "a resumed run would take other steps: it has state outside of its parameters and groups"
            )

    def rate_at(self, generation: int) -> float:
        """Return a generation's learning rate of parameters with factor 1."""
        return self._rate * self._schedule.factor(generation)

    def step(self, generation: int, more: float = 1.0) -> None:
        """Step along the parameters' gradients with the generation's learning rate times ``more``, and drop the gradients."""
        factor = self._schedule.factor(generation) * more
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        with torch.no_grad():  # the class's own step: torch's wrapper imports the compiler and counts for profilers
            self._step(self._optimizer)
        for parameter in self._parameters:  # torch's zero_grad() enters its profiler, for longer than a step of few numbers takes
            parameter.grad = None

    def state(self, live: bool = False) -> State:
        """Return the optimizer state of every parameter under ``optimizer.<index>.<name>``; copies unless ``live``.

        Entries of a group that steps changed, as Prodigy's estimate of the rate, are under ``optimizer.group<index>.<name>``.
        """
        state = State()
        for index, (group, first) in enumerate(zip(self._optimizer.param_groups, self._first, strict=True)):
            for name, value in _of_group(group).items():
                if not _same(value, first.get(name)):
                    place = state.tensors if isinstance(value, Tensor) else state.scalars
                    place[f"optimizer.group{index}.{name}"] = copy.deepcopy(value)
        held = self._optimizer.state_dict()["state"]
        for index, places in enumerate(self._wholes):
            for name, value in held.get(places[0], {}).items():
                if isinstance(value, Tensor) and len(places) > 1 and value.shape == self._parameters[places[0]].shape:
                    state.tensors[f"optimizer.{index}.{name}"] = torch.cat([held[place][name] for place in places])
                elif isinstance(value, Tensor):
                    state.tensors[f"optimizer.{index}.{name}"] = value if live else value.clone()
                else:
                    state.scalars[f"optimizer.{index}.{name}"] = copy.deepcopy(value)
        return state

    def restore(self, state: State) -> None:
        """Restore a :meth:`state`, by copies; other entries of ``state`` are ignored."""
        slots: dict[int, dict[str, Any]] = {}
        for group, first in zip(self._optimizer.param_groups, self._first, strict=True):
            group.update(copy.deepcopy(first))
        for key, value in [*state.tensors.items(), *state.scalars.items()]:
            if key.startswith("optimizer.group"):
                index, name = key.removeprefix("optimizer.group").split(".", 1)
                self._optimizer.param_groups[int(index)][name] = copy.deepcopy(value)
            elif key.startswith("optimizer."):
                _, index, name = key.split(".", 2)
                places = self._wholes[int(index)]
                rows = [len(self._parameters[place]) for place in places] if len(places) > 1 else []
                split = isinstance(value, Tensor) and value.dim() and rows and len(value) == sum(rows)
                for place, part in zip(places, value.split(rows) if split else [value] * len(places), strict=True):
                    slots.setdefault(place, {})[name] = self._laid_out(part, place)
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": slots})

    def _laid_out(self, value: Any, index: int) -> Any:
        """Copy a state tensor into the memory order of its parameter, since fused steps walk through both in step."""
        parameter = self._parameters[index]
        if isinstance(value, Tensor) and value.shape == parameter.shape:
            return torch.empty_like(parameter, dtype=value.dtype).copy_(value)
        return copy.deepcopy(value)  # a step count is a tensor that every step changes


def _length(size: int) -> int:
    """Return the least numbers of a span, and of a piece: a share of the centre, since memory for their sums is needed."""
    return max(2**20, min(2**24, size // 16))


def _pieces(layout: ParameterLayout, split: bool) -> list[list[Place]]:
    """Return each parameter in pieces of some rows where it is a large one to ``split``; rows are multiples of those of sums."""
    pieces = list[list[Place]]()
    for place in layout.places:
        size, length = place.stop - place.start, _length(layout.size)
        if not split or size <= length or len(place.shape) == 4:
            pieces.append([place])
            continue
        width = size // place.shape[0]
        step = max(1, length // (width * ROWS)) * ROWS * width
        bounds = [*range(place.start, place.stop, step), place.stop]
        pieces.append([Place(place.name, low, high, ((high - low) // width, *place.shape[1:])) for low, high in pairwise(bounds)])
    return pieces


class CentreOptimizer:
    """The centre (M,) with its optimizer, which steps it along a gradient (M,); torch minimises, so it sees the negative.

    A centre in bfloat16, which this object takes over, needs a ``rounding``. The optimizer then steps float32 copies of its
    tensors, one after the other where it can, and its states are float32.

    ``average`` in [0, 1): share of the past in an exponential average of the centres, 0: no average. After step t = 0, 1, ...
    the share is at most (1 + t) / (10 + t), so that the initial centre is soon forgotten. Averaging: Polyak and Juditsky,
    "Acceleration of stochastic approximation by averaging", 1992. Steps write to ``centre`` itself. Raises ConfigError.
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
        self._room: Tensor | None = None
        exact = centre.dtype != torch.bfloat16
        self._share = number("algo.average", average, low=0.0, below=1.0)
        if self._share and not exact:
            raise ConfigError("algo.average", average, "must be 0 with weights in bfloat16, whose steps an average would lose")
        self.centre = centre.clone() if self._share else centre  # what is given may be the memory of the module to load
        self.average = centre.clone() if self._share else None
        pieces = _pieces(layout, layout.size >= LARGE and _kind(factory) in BY_VALUE)
        self._pieces = [piece for of_one in pieces for piece in of_one]
        self._parameters = [nn.Parameter(piece.view(self.centre) if exact else _unused(piece, centre)) for piece in self._pieces]
        counts = [len(of_one) for of_one in pieces]
        self._optimizer = ScheduledOptimizer(factory, schedule, self._parameters, factors=factors, parts=counts)
        self._large = len(self._pieces) > len(pieces)

    def rate_at(self, generation: int) -> float:
        """Return the learning rate of a generation."""
        return self._optimizer.rate_at(generation)

    def ascend(self, generation: int, gradient: Tensor, decay: float = 0.0, more: float = 1.0) -> None:
        """Step along ``gradient`` - ``decay`` * centre, with the generation's learning rate times ``more``.

        ``gradient`` (M,) is overwritten: with millions of parameters every copy adds to the peak memory.
        """
        self.ascend_span(generation, gradient, 0, decay, more)

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
        """:meth:`ascend` of the columns from ``start`` on, as many as ``gradient`` (n,) has: of all, or of one of the spans."""
        stop = start + len(gradient)
        gradient.neg_()
        if self.rounding is None:
            self._step(generation, start, gradient, self.centre[start:stop], decay, more)
        else:
            within = [(low, high) for low, high in self.spans or [] if start <= low and high <= stop]
            for low, high in within or [(start, stop)]:
                exact = self._exact(low, high)
                self._step(generation, low, gradient[low - start : high - start], exact, decay, more)
                self.rounding.store(exact, generation, low, self.centre)
        if self.average is not None:  # each operation rounds once, so that every processor and thread count gives the same bits
            average, centre = self.average[start:stop], self.centre[start:stop]
            average.sub_(centre).mul_(min(self._share, (1 + generation) / (10 + generation))).add_(centre)

    def _exact(self, start: int, stop: int) -> Tensor:
        """Return columns [start, stop) of the centre in float32, in one memory for all spans: the C library would reuse none."""
        if self._room is None or len(self._room) < stop - start:
            self._room = torch.empty(stop - start, dtype=torch.float32, device=self.centre.device)
        return self._room[: stop - start].copy_(self.centre[start:stop])

    def _step(self, generation: int, start: int, gradient: Tensor, centre: Tensor, decay: float, more: float) -> None:
        """Step the pieces of columns from ``start`` on, float32 numbers in ``centre`` (n,), against ``gradient`` (n,)."""
        stop = start + len(gradient)
        if decay:
            gradient.add_(centre, alpha=decay)
        for parameter, piece in zip(self._parameters, self._pieces, strict=True):
            if start <= piece.start and piece.stop <= stop:
                own = slice(piece.start - start, piece.stop - start)
                parameter.grad = piece.view_of(gradient[own])
                if self.rounding is not None:
                    parameter.data = piece.view_of(centre[own])
        self._optimizer.step(generation, more)
        if self.rounding is not None:
            for parameter, piece in zip(self._parameters, self._pieces, strict=True):
                if start <= piece.start and piece.stop <= stop:
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
        self._sigma_given, self._rate_given, rounding = sigma, rate, self._optimizer.rounding
        self.start(centre, layout, population, seed)
        self._optimizer.rounding = rounding

    def round_by(self, rounding: Rounding) -> None:
        self._optimizer.rounding = rounding

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
