"""Optimizers of torch over the centre: any whose step takes gradients alone, others refused before anything is scored."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from neuro_cli import Evolution
from neuro_cli.algo.centre.optimizer import CentreOptimizer
from neuro_cli.algo.centre.torch_optimizer import ScheduledOptimizer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import CONSTANT

KINDS = [kind for kind in vars(torch.optim).values() if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)]
REFUSED = {"LBFGS": "'closure'", "SparseAdam": "does not support dense gradients"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not torch.optim.Optimizer])
def test_every_optimizer_of_torch_steps_or_is_refused_at_the_start(kind):
    with Evolution(nn.Linear(3, 2, bias=False), population=4, optimizer=kind, lr=0.1, threads=1) as es:
        if kind.__name__ in REFUSED:
            line = rf"^algo\.optimizer={kind.__name__}: takes no step from dense gradients alone \(.*{REFUSED[kind.__name__]}"
            with pytest.raises(ConfigError, match=line):
                es.ask()
            return
        before = es.centre
        es.ask()
        es.tell([1.0, 2.0, 3.0, 4.0])
        assert not torch.equal(es.centre, before)


@pytest.mark.parametrize("factors", [None, [0.5, 1.0, 3.0, 3.0]])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad])
def test_steps_are_torchs_with_a_rate_of_each_parameter_and_after_a_restore(kind, factors):
    """Channels-last views, fused steps and restored state against a plain optimizer on contiguous tensors."""
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(5, 2))
    layout, more = ParameterLayout(module), {"momentum": 0.9} if kind is torch.optim.SGD else {}
    rates = zip(module.parameters(), factors or [1.0] * 4, strict=True)
    theirs = kind([{"params": [parameter], "lr": 0.1 * factor} for parameter, factor in rates], lr=0.1, **more)

    def made(start: torch.Tensor) -> CentreOptimizer:
        return CentreOptimizer(partial(kind, lr=0.1, **more), CONSTANT, start, layout, factors)

    ours = made(layout.flatten(module))
    for generation in range(6):
        gradient = torch.sin(torch.arange(layout.size) * (generation + 1.0))
        for parameter, view in zip(module.parameters(), layout.views(-gradient), strict=True):
            parameter.grad = view.clone()
        theirs.step()
        if generation == 3:
            state, ours = ours.state(), made(torch.zeros(layout.size))
            state.tensors = {name: tensor.contiguous() for name, tensor in state.tensors.items()}
            ours.restore(state)
        ours.ascend(generation, gradient.clone())
    torch.testing.assert_close(ours.centre, layout.flatten(module), rtol=1e-5, atol=1e-6)
    assert ours.rate_at(0) == 0.1


def test_what_was_tried_leaves_no_trace():
    parameters = [nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(4))]
    made = ScheduledOptimizer(partial(torch.optim.Adam, lr=0.1), CONSTANT, parameters, factors=[1.0, 0.5])
    assert not made.state().tensors
    assert all(bool((parameter == 1).all()) and parameter.grad is None for parameter in parameters)


class _Base(torch.optim.Optimizer):
    """SGD whose rate has a factor, as those that estimate a rate or correct a bias keep it."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr, "factor": 1.0})

    def step(self):
        for group in self.param_groups:
            group["factor"] = self.next(group["factor"])
            for parameter in group["params"]:
                parameter -= group["lr"] * group["factor"] * parameter.grad

    def next(self, factor):
        return factor * 0.9


class InGroup(_Base):
    """The factor is in the group, as Prodigy's estimate and the step count of most of pytorch_optimizer."""


class TensorInGroup(_Base):
    def next(self, factor):
        return torch.as_tensor(factor) * 0.9


class InAttribute(_Base):
    def next(self, factor):
        self.times = getattr(self, "times", 0) + 1
        return 0.9**self.times


class InQueue(_Base):
    def step(self):
        super().step()
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["seen"] = {3}


class OtherType(_Base):
    """Its average of the gradients has another type than the parameters, which torch's own load_state_dict would give it."""

    kind = torch.float64

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                average = self.state[parameter].setdefault("average", torch.zeros_like(parameter, dtype=self.kind))
                average.mul_(0.9).add_(parameter.grad.to(self.kind), alpha=0.1)
                parameter.sub_((group["lr"] * average).to(parameter.dtype))


class HalfType(OtherType):
    kind = torch.bfloat16


class FromTorch(_Base):
    def next(self, factor):
        return float(torch.rand(()))


class FromNumpy(_Base):
    def next(self, factor):
        return float(np.random.random())


class WithoutRate(_Base):
    def __init__(self, params):
        torch.optim.Optimizer.__init__(self, params, {"factor": 1.0})


def _stepped(stepped, parameters, times):
    for time in times:
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, 1.0 + time)
        stepped.step(time)


@pytest.mark.parametrize("kind", [InGroup, TensorInGroup])
def test_what_a_step_changes_in_a_group_is_state(kind):
    kept, again = ([nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(4))] for _ in range(2))
    first, second = (ScheduledOptimizer(kind, CONSTANT, each, factors=[1.0, 0.5]) for each in (kept, again))
    assert not first.state().tensors
    assert not first.state().scalars
    _stepped(second, again, range(3))  # what was before a restore counts for nothing
    second.restore(first.state())
    _stepped(first, kept, range(5))
    state = first.state()
    json.dumps(state.scalars)
    second.restore(state)
    with torch.no_grad():
        for parameter, other in zip(again, kept, strict=True):
            parameter.copy_(other)
    _stepped(first, kept, range(5, 8))
    _stepped(second, again, range(5, 8))
    assert all(torch.equal(one, other) for one, other in zip(kept, again, strict=True))


@pytest.mark.parametrize("kind", [OtherType, HalfType])
def test_state_of_another_type_than_the_parameters_keeps_it(kind):
    kept, again = ([nn.Parameter(torch.ones(30, 40)), nn.Parameter(torch.ones(4))] for _ in range(2))
    first, second = (ScheduledOptimizer(kind, CONSTANT, each) for each in (kept, again))
    for time in range(10):
        for parameter in kept:
            parameter.grad = (torch.arange(1.0, 1 + parameter.numel()) * (time + 1)).sin().view_as(parameter)
        if time == 5:
            second.restore(first.state())
            with torch.no_grad():
                for parameter, other in zip(again, kept, strict=True):
                    parameter.copy_(other)
        for parameter, other in zip(again, kept, strict=True):
            parameter.grad = other.grad.clone()
        first.step(0)
        if time >= 5:
            second.step(0)
    assert all(value.dtype == kind.kind for value in second.state().tensors.values())
    assert all(torch.equal(one, other) for one, other in zip(kept, again, strict=True))


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (InAttribute, "a resumed run would take other steps: it has state outside of its parameters and groups"),
        (InQueue, "no checkpoint holds its seen, a set"),
        (FromTorch, "its step draws from the global generator of torch, so ranks and resumed runs would differ"),
        (FromNumpy, "its step draws from the global generator of numpy"),
        (WithoutRate, "it has no learning rate lr"),
    ],
)
def test_an_optimizer_that_could_not_be_resumed_is_refused_at_the_start(kind, line):
    with pytest.raises(ConfigError, match=f"^algo.optimizer={kind.__name__}: {line}"):
        ScheduledOptimizer(kind, CONSTANT, [nn.Parameter(torch.ones(2, 3))])
