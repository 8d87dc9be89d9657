"""Whether a launcher of torch.distributed started this process, and what is wrong with its variables."""

import socket

import pytest
from support.inside import neuro_inside, one_line
from support.torch_ranks import free_port

from neuro_cli.core.errors import UserError
from neuro_cli.fabric import torchrun_environment
from neuro_cli.fabric.start import launched
from neuro_cli.fabric.torchrun_environment import TorchPlace, met, torch_launched
from neuro_cli.launch import restarts as started

MEETS = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
RANK = {"RANK": "1", "WORLD_SIZE": "2", **MEETS}


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    own = torchrun_environment.TORCHRUN, torchrun_environment.RESTARTS
    for name in ("PMI_RANK", "PMI_SIZE", "PMIX_RANK", *RANK, *own, "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


def given(monkeypatch, variables) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        (RANK, TorchPlace(1, 2, "127.0.0.1", 29500)),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", **MEETS}, TorchPlace(3, 4, "127.0.0.1", 29500)),
    ],
)
def test_places(variables, place, monkeypatch):
    given(monkeypatch, variables)
    assert torch_launched()
    assert launched()
    assert torchrun_environment.torch_place() == place
    assert place.one_machine


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RANK": "3"},  # a variable of a user's own
        {**RANK, "WORLD_SIZE": "1"},  # one process of torchrun trains alone
        MEETS,
        {"PMI_RANK": "1", "PMI_SIZE": "2", **RANK},  # MPI's launcher comes first
        {"PMI_RANK": "1", "PMI_SIZE": "2", "TORCHELASTIC_RUN_ID": "none", **RANK},  # the same ranks by two names
    ],
)
def test_no_ranks_of_torch(variables, monkeypatch):
    given(monkeypatch, variables)
    assert not torch_launched()


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        (
            {"RANK": "1", **MEETS},
            "WORLD_SIZE=not set: a launcher of torch.distributed sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
        ),
        ({"WORLD_SIZE": "2", **MEETS}, "RANK=not set: "),
        ({**RANK, "RANK": "2"}, "RANK=2: must be an integer in [0, 1]"),
        ({**RANK, "WORLD_SIZE": "two"}, "WORLD_SIZE=two: must be an integer in [1, "),
        ({**RANK, "MASTER_PORT": "99999"}, "MASTER_PORT=99999: must be an integer in [1, 65535]"),
        ({**RANK, "MASTER_ADDR": ""}, "MASTER_ADDR=not set: "),
        ({**RANK, "NEURO_MEETING_SECONDS": "soon"}, "NEURO_MEETING_SECONDS=soon: must be seconds above 0"),
        (
            {**RANK, "TORCHELASTIC_RUN_ID": "none", "PMI_RANK": "0", "PMI_SIZE": "4"},  # srun, whose MPI is pmi2, starts torchrun
            "PMI_RANK=0 of an MPI launcher and RANK=1 of torchrun differ: start ranks with one of them; srun --mpi=none torchrun",
        ),
    ],
)
def test_bad_variables_are_one_line(variables, line, tmp_path):
    assert one_line(neuro_inside("train", "generations=1", cwd=tmp_path, **variables)).startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_ranks_that_do_not_come_are_named(monkeypatch):
    monkeypatch.setenv(torchrun_environment.MEETING, "0.5")
    with pytest.raises(UserError, match=r"rank 1, 2 of 3 did not come within 0.5 s; start all ranks"):
        met(TorchPlace(0, 3, "127.0.0.1", free_port()))
    with pytest.raises(UserError, match=r"nobody listens \(Connection refused\) within 0.5 s"):
        met(TorchPlace(1, 2, "127.0.0.1", free_port()))


def test_a_port_in_use_and_an_unknown_machine_are_one_line():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"^MASTER_PORT={port}: another program listens on 127.0.0.1; choose a free port$"):
            met(TorchPlace(0, 2, "127.0.0.1", port))
    with pytest.raises(UserError, match=r"^MASTER_ADDR=nowhere.invalid: must be the name or address of rank 0's machine"):
        met(TorchPlace(0, 2, "nowhere.invalid", free_port()))


def test_starts_are_counted_by_the_launcher_that_made_them(monkeypatch):
    assert started.restarts() == 0
    given(monkeypatch, {torchrun_environment.TORCHRUN: "none", torchrun_environment.RESTARTS: "2"})
    assert started.restarts() == 2
    assert started.started_again() == "torchrun started the ranks again (2)"
