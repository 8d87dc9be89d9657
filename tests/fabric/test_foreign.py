"""torchrun, and srun without MPI, start processes that know nothing of each other: each would train alone."""

import pytest
from support.inside import neuro_inside, one_line

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.foreign import foreign_start
from neuro_cli.fabric.network import Network

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
SRUN = {"SLURM_STEP_NUM_TASKS": "4"}


def test_torchrun_is_refused_by_one_line_of_its_first_process(tmp_path):
    done = neuro_inside("train", "generations=1", cwd=tmp_path, RANK="0", **TORCHRUN)
    assert one_line(done) == (
        "torchrun started this process as rank 0 of 2 without MPI, so each would train alone; "
        "use neuro train ranks=2, or mpiexec -n 2 neuro train"
    )
    other = neuro_inside("train", "generations=1", cwd=tmp_path, RANK="1", **TORCHRUN)
    assert (other.returncode, other.stdout, other.stderr) == (2, "", "")
    assert list(tmp_path.iterdir()) == []


def test_srun_without_mpi_is_refused_with_its_option(tmp_path):
    line = one_line(neuro_inside("resume", "run", cwd=tmp_path, SLURM_PROCID="0", **SRUN))
    assert line.startswith("srun started this process as rank 0 of 4 without MPI")
    assert "give srun --mpi=pmi2" in line


def test_what_needs_no_world_runs_below_torchrun(tmp_path):
    assert neuro_inside("train", "--cfg", "job", cwd=tmp_path).returncode == 0
    done = neuro_inside("--help", cwd=tmp_path, RANK="0", **TORCHRUN)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {**TORCHRUN, "WORLD_SIZE": "1"},
        {**TORCHRUN, "PMI_RANK": "0"},  # mpiexec within it
        {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},  # the process of sbatch, a job of a sweep
        {"SLURM_PROCID": "1", **SRUN, "PMIX_RANK": "1"},  # srun with MPI
        {"RANK": "0", "WORLD_SIZE": "2"},  # variables of a user's own program
    ],
)
def test_other_starts_are_none_of_its_business(variables, monkeypatch):
    for name in ("PMI_RANK", "PMIX_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert foreign_start() is None


def test_a_script_below_torchrun_is_refused_too(monkeypatch):
    for name, value in {"RANK": "1", **TORCHRUN}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"^torchrun started this process as rank 1 of 2"):
        Network("native").connect(needs_mpi=False)
