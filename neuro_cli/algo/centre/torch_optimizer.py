"""Optimizers of ``torch.optim`` with scheduled rates, and their trial at the start.

Any class of ``torch.optim`` works if its step needs no closure and takes dense gradients, matrix optimizers included.
"""

import copy
import inspect
import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, islice, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.algo.base import State
from neuro_cli.algo.step_size.auto import AUTO
from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.schedule import CONSTANT, Schedule
from neuro_cli.core.seeds import Generators

OptimizerFactory = Callable[..., torch.optim.Optimizer]

STEPS = 5  # trial steps of an optimizer that is not torch's, which show whether each draws random numbers


def _fused(factory: OptimizerFactory) -> OptimizerFactory:
    """Choose the class's fused step, which needs no temporaries, if it has one and the config asks for no other."""
    kind = class_of(factory)
    chosen = factory.keywords if isinstance(factory, partial) else {}
    if (
        kind not in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
        or {"fused", "foreach", "differentiable"} & chosen.keys()
    ):
        return factory
    return partial(factory, fused=True)


def class_of(factory: OptimizerFactory) -> Any:
    """Return the class of optimizer, or the function, behind ``factory``."""
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
        self._group = {id(parameter): number for number, group in enumerate(groups.values()) for parameter in group}
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
        moved = list[list[str]]()  # generators in each step
        try:
            with torch.no_grad():
                stepped = _fused(factory)([{"params": group} for group in groups])
                for _ in range(STEPS if foreign else 1):
                    before = Generators()
                    self._step(stepped)
                    moved.append(before.moved())
        except Exception as error:  # an optimizer may be the user's own
            reason = " ".join(str(error).split())
            raise ConfigError(key, name, f"takes no step from dense gradients alone ({reason})") from error
        # another thread may draw meanwhile, but hardly in each of the steps
        drawn = [library for library in moved[0] if foreign and all(library in each for each in moved)]
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

    def step(self, generation: int, more: float = 1.0, some: Sequence[nn.Parameter] | None = None) -> None:
        """Step along the parameters' gradients with the generation's learning rate times ``more``, and drop the gradients.

        ``some``: those that have gradients, None: all. Several threads may step others at the same time.
        """
        factor, chosen = self._schedule.factor(generation) * more, self._parameters if some is None else some
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        with torch.no_grad():  # the class's own step: torch's wrapper imports the compiler and counts for profilers
            self._step(self._optimizer if len(chosen) == len(self._parameters) else self._of(chosen))
        for parameter in chosen:  # torch's zero_grad() enters its profiler, for longer than a step of few numbers takes
            parameter.grad = None

    def _of(self, some: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        """Return an optimizer of ``some`` parameters with the states of that of all."""
        part: torch.optim.Optimizer = object.__new__(type(self._optimizer))
        groups = [{**group, "params": list[nn.Parameter]()} for group in self._optimizer.param_groups]
        vars(part).update({**vars(self._optimizer), "param_groups": groups})
        for parameter in some:
            groups[self._group[id(parameter)]]["params"].append(parameter)
        return part

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
        """Restore a :meth:`state` of the optimizer, by copies; other entries of ``state`` are ignored."""
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
        for place, parameter in enumerate(self._parameters):  # torch rounds each tensor to the type of its parameter
            held = self._optimizer.state.get(parameter, {})
            for name, value in slots.get(place, {}).items():
                if isinstance(value, Tensor) and isinstance(held.get(name), Tensor) and held[name].dtype != value.dtype:
                    held[name] = value

    def _laid_out(self, value: Any, index: int) -> Any:
        """Copy a state tensor into the memory order of its parameter, since fused steps walk through both in step."""
        parameter = self._parameters[index]
        if isinstance(value, Tensor) and value.shape == parameter.shape:
            return torch.empty_like(parameter, dtype=value.dtype).copy_(value)
        return copy.deepcopy(value)  # a step count is a tensor that every step changes
