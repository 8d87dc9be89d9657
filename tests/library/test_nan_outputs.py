"""A member whose outputs are NaN while its fitness is finite: one line says so."""

import logging
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import neuro_cli as neuro
from neuro_cli.scoring.nan_outputs import COMPILED, NanOutputs

SAID = "has outputs of NaN and a finite fitness"


class Steep(nn.Module):
    """Outputs NaN where a weight is above the limit, as a network does that overflows."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.weight, self.limit = nn.Parameter(torch.zeros(3)), limit

    def forward(self, x):
        return torch.where(self.weight.max() > self.limit, torch.nan, 1.0) * (x * self.weight).sum(-1)


class Simulator:
    """Keeps its last value where it is given NaN."""

    def __init__(self) -> None:
        self.value = 0.0

    def played(self, action: float) -> float:
        self.value = action if math.isfinite(action) else 0.0
        return self.value


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING and SAID in record.message]


def run(limit: float, fitness, generations: int = 8, **arguments) -> neuro.Evolution:
    module = Steep(limit)
    with neuro.Evolution(module, population=8, sigma=0.1, lr=0.05, threads=1, **arguments) as evolution:
        for _ in range(generations):
            evolution.step(fitness)
        return evolution


def swallows(member: nn.Module) -> float:
    return Simulator().played(float(member(torch.ones(3))))


def test_one_line_says_that_a_fitness_hides_nan(caplog):
    caplog.set_level(logging.WARNING)
    run(0.1, swallows)  # about a third of the members
    assert len(lines(caplog)) == 1
    assert "fitness: member " in lines(caplog)[0]


@pytest.mark.parametrize("minimise", [False, True])
def test_nothing_is_said_of_finite_outputs_and_no_bit_changes(caplog, minimise):
    caplog.set_level(logging.WARNING)
    seen = run(1e9, swallows, minimise=minimise).centre
    assert lines(caplog) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NanOutputs, "_after", lambda *_: None)
        assert torch.equal(run(1e9, swallows, minimise=minimise).centre, seen)


def test_infinite_outputs_are_the_users(caplog):
    caplog.set_level(logging.WARNING)

    def masked(member):
        return float((member(torch.ones(3)) + torch.tensor([0.0, -math.inf])).softmax(0)[0])

    run(1e9, masked)
    assert lines(caplog) == []


def test_nan_of_parameters_that_no_member_has_is_not_reported(caplog):
    """A module that keeps a count is tried with turned parameters, where a logarithm may be NaN."""
    caplog.set_level(logging.WARNING)

    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.calls = nn.Parameter(torch.ones(3)), 0

        def forward(self, x):
            self.calls += 1
            return (self.weight.log() * x).sum() + 0 * self.calls

    with neuro.Evolution(Counts(), population=4, sigma=0.01, threads=1) as evolution:
        for _ in range(3):
            evolution.step(lambda member: float(member(torch.ones(3)).nan_to_num()))
    assert lines(caplog) == []


def test_the_members_of_all_places_are_looked_at_in_turn(caplog, monkeypatch):
    watched = []
    entered = NanOutputs.__enter__
    monkeypatch.setattr(NanOutputs, "__enter__", lambda self: watched.append(1) or entered(self))
    run(1e9, swallows, generations=5)
    assert 5 <= len(watched) <= 7  # the first generation may be scored again


def test_compiled_and_scripted_modules_take_no_hook(monkeypatch):
    class Compiled(nn.Linear):
        """Stands for torch's class, whose import takes seconds."""

    monkeypatch.setitem(sys.modules, "torch._dynamo", SimpleNamespace(OptimizedModule=Compiled))
    in_place = nn.Linear(2, 2)
    in_place._compiled_call_impl = in_place._call_impl
    for module in (Compiled(2, 2), in_place, torch.jit.script(nn.Linear(2, 2))):
        with NanOutputs(module) as outputs:
            assert not module._forward_hooks
        assert not outputs.found
    assert f"{COMPILED} = " in (Path(torch.__file__).parent / "_dynamo/eval_frame.py").read_text()


def test_nested_outputs_are_seen_and_the_hook_leaves():
    class Pair(nn.Module):
        def forward(self, x):
            return {"action": (x, torch.tensor([1, 2])), "value": x / x}

    module = Pair()
    with NanOutputs(module) as outputs:
        module(torch.ones(2))
    assert not outputs.found
    with NanOutputs(module) as outputs:
        module(torch.zeros(2))
        module(torch.ones(2))
    assert outputs.found
    assert not module._forward_hooks
