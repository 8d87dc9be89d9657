"""Frozen parameters: once a machine, however many threads and ranks, and private to whoever writes to them."""

import logging
import os
import re
from pathlib import Path

import pytest
import torch
from support.inside import well
from support.worlds import mostly_own, program
from torch import nn

import neuro_cli
from neuro_cli.runner import frozen

LAYER, MORE = 100, 60  # MB of the frozen weights, and of what else a rank may take


# two ranks of two threads each: a copy for a thread, or for a rank, would be seen
@mostly_own
@pytest.mark.parametrize("ranks", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_frozen_layer_takes_its_memory_once(mpi, ranks, tmp_path):
    if mpi.name != "own" and not ranks:
        pytest.skip("a process without MPI needs one environment")
    done = well(program(Path(__file__).with_name("frozen_program.py"), cwd=tmp_path, ranks=ranks, mpi=mpi))
    took = [float(found) for found in re.findall(r"took (-?[\d.]+) MB", done.stdout)]
    assert len(took) == max(1, ranks)
    assert sum(took) < LAYER + MORE * len(took)


class Counter(nn.Module):
    """A module whose pass writes to a frozen parameter, large enough to be shared."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = nn.Parameter(torch.zeros(2**18), requires_grad=False)
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        self.counted += 1
        return self.head(x) + self.counted[0]


def centre_of(module: nn.Module) -> torch.Tensor:
    with neuro_cli.Evolution(module, population=8, threads=2) as evolution:
        for _ in range(3):
            evolution.step(lambda member: float(member(torch.ones(2, 3)).sum()))
        return evolution.centre


def made(kind: type) -> nn.Module:
    torch.manual_seed(0)
    return kind()


def test_a_pass_that_writes_to_it_changes_no_other_member_and_not_the_users_module(monkeypatch):
    module = made(Counter)
    shared = centre_of(module)
    assert not module.counted.any()
    monkeypatch.setattr(frozen, "LEAST", 2**40)
    assert torch.equal(shared, centre_of(made(Counter)))


def test_numbers_that_the_script_writes_between_two_trainings_count():
    module, other = made(Counter), made(Counter)
    centre_of(module)
    module.counted.fill_(-0.5)  # its pages are its own from now on
    other.load_state_dict(module.state_dict())
    assert torch.equal(centre_of(module), centre_of(other))
    assert (module.counted == -0.5).all()


def test_a_system_without_anonymous_files_is_a_line(monkeypatch, caplog):
    def refuse(*_: object) -> int:
        raise OSError("Function not implemented")

    shared = centre_of(made(Counter))
    monkeypatch.setattr(os, "memfd_create", refuse)
    with caplog.at_level(logging.INFO, "neuro_cli"):
        assert torch.equal(centre_of(made(Counter)), shared)
    assert "frozen parameters: a copy for each thread, since Function not implemented" in caplog.text
