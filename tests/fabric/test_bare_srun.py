"""srun without MPI starts processes that know nothing of each other: each would train alone."""

import os

import pytest
from support.inside import neuro_inside, one_line

from neuro_cli.fabric.bare_srun import foreign_start
from neuro_cli.fabric.start import launched

SRUN = {"SLURM_STEP_NUM_TASKS": "4"}


def test_srun_without_mpi_is_refused_by_one_line_of_its_first_process(tmp_path):
    line = one_line(neuro_inside("resume", "run", cwd=tmp_path, SLURM_PROCID="0", **SRUN))
    assert line.startswith(
        "srun started this process as rank 0 of 4 without MPI, so each would train alone; give srun --mpi=pmi2"
    )
    assert line.endswith("or use neuro train ranks=4")
    other = neuro_inside("train", "generations=1", cwd=tmp_path, SLURM_PROCID="1", **SRUN)
    assert (other.returncode, other.stdout, other.stderr) == (2, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},  # the process of sbatch, a job of a sweep
        {"SLURM_PROCID": "1", **SRUN, "PMIX_RANK": "1"},  # srun with MPI
        {"SLURM_PROCID": "1", **SRUN, "MASTER_ADDR": "node1", "MASTER_PORT": "29500"},  # srun with a place to meet
    ],
)
def test_other_starts_are_none_of_its_business(variables, monkeypatch):
    for name in ("PMI_RANK", "PMIX_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert foreign_start() is None


def test_a_shell_of_srun_pty_is_alone_and_a_step_inside_it_is_not(monkeypatch):
    for name, value in {"SLURM_PROCID": "0", "SLURM_PTY_PORT": "40000", **SRUN}.items():
        monkeypatch.setenv(name, value)
    terminals = ["/dev/null", "/none"]
    usual = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: usual(terminals.pop(0) if path == "/dev/tty" else path, *rest))
    assert foreign_start() is None
    assert foreign_start() is not None


@pytest.mark.parametrize(("variables", "ranks"), [({}, False), ({"MPI_LOCALNRANKS": "4"}, True), ({"SLURM_PTY_PORT": ""}, True)])
def test_a_shell_of_srun_pty_with_mpi_is_no_rank(variables, ranks, monkeypatch):
    """Unless mpiexec started the process in it, or srun a step without a terminal."""
    for name, value in {"SLURM_PTY_PORT": "40000", "PMI_RANK": "0", "PMI_SIZE": "4", "PMI_FD": "5", **SRUN, **variables}.items():
        monkeypatch.setenv(name, value)
    if not os.environ["SLURM_PTY_PORT"]:
        monkeypatch.delenv("SLURM_PTY_PORT")
    usual = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: usual("/dev/null" if path == "/dev/tty" else path, *rest))
    assert launched() == ranks
    assert ("PMI_FD" in os.environ) == ranks
    assert foreign_start() is None
