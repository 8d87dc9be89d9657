"""What goes wrong on one rank alone ends all ranks."""

import shutil
from pathlib import Path

import pytest
from support.made_data import idx_files
from support.worlds import mostly_own, neuro

pytestmark = pytest.mark.waits

SMALL = ("population=8", "batch_size=16", "threads=1", "distribution=replicated")


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copy(Path(__file__).parent / "one_rank_nets.py", tmp_path)
    (tmp_path / "data" / "MNIST" / "raw").mkdir(parents=True)
    for name, content in idx_files(train=30, test=10).items():
        (tmp_path / "data" / "MNIST" / "raw" / name).write_bytes(content)
    return tmp_path


@pytest.mark.slow  # by default tests/runner/test_ensemble_runs.py has an error of one rank alone
@mostly_own
def test_bad_input_on_one_rank_while_another_waits_for_a_download(folder, mpi):
    """Rank 1 never comes to the point where the ranks wait for the download of rank 0."""
    setting = ("model._target_=one_rank_nets.Refused", "task=mnist", "task.download=true")
    done = neuro("train", *SMALL, *setting, cwd=folder, ranks=2, mpi=mpi)
    assert done.returncode == 2, done.stderr
    text = "neuro: error: rank 1: model._target_=one_rank_nets.Refused: no licence on this machine"
    lines = done.stderr.splitlines()
    # Open MPI's mpiexec adds, between rulers, which exit code it saw
    assert lines == [text] if mpi.kind == "mpich" else [line for line in lines if "error" in line] == [text], done.stderr


@mostly_own
def test_a_rank_that_leaves_ends_the_others(folder, mpi):
    setting = ("model._target_=one_rank_nets.Leaving", "generations=100000", "hydra.run.dir=run")
    done = neuro("train", *SMALL, *setting, cwd=folder, ranks=2, mpi=mpi)
    assert done.returncode != 0
    assert done.stderr.count("neuro: error: SystemExit: 0") == 1
