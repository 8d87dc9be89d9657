"""``ranks=N fabric=gloo``: ranks by one command, forks with shared imports, which stops cleanly and prints no traceback."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line, well
from support.worlds import clean_environment, descendants, neuro, wait_for_end, wait_for_rows

from neuro_cli.cli.verbs import doctor
from neuro_cli.launch.lock import is_taken

WORDS = ("population=10", "batch_size=16", "threads=1", "model=MNIST_10K", "checkpoint.every=2", "fabric=gloo", "ranks=2")


def started(folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "neuro_cli", "train", *WORDS, "generations=5000", "hydra.run.dir=run"]
    process = subprocess.Popen(
        command, cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for_rows(folder / "run", 4, process)
    return process


def agent_and_ranks(command: int) -> list[int]:
    """The fork of a command and its ranks, one after the other; they have its command line."""
    line = Path(f"/proc/{command}/cmdline").read_bytes()
    return sorted(pid for pid in descendants(command) if Path(f"/proc/{pid}/cmdline").read_bytes() == line)


def own_bytes(pid: int) -> int:
    """Memory of a process that no other has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))


@pytest.mark.slow
def test_a_request_to_stop_leaves_a_checkpoint(tmp_path):
    process = started(tmp_path)
    for pid in (process.pid, *agent_and_ranks(process.pid)):
        assert own_bytes(pid) < 1e8  # without imports: they are a quarter of each process
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "continue with: neuro resume run" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
def test_ranks_of_a_killed_command_leave_a_checkpoint_and_end(tmp_path):
    process = started(tmp_path)
    ranks = agent_and_ranks(process.pid)
    process.kill()
    process.communicate(timeout=240)
    wait_for_end(ranks)
    assert "(SIGTERM)" in (tmp_path / "run" / "log.txt").read_text()
    assert not is_taken(tmp_path / "run")


@pytest.mark.slow
def test_bad_input_is_one_line(tmp_path):
    done = neuro("train", *WORDS, "algo.sigma=-1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "neuro: error: algo.sigma=-1: must be a number > 0\n"


def test_emulation_needs_ranks_that_do_not_share_the_loopback_interface(tmp_path):
    words = ("fabric=ethernet_1g", "fabric.launcher=torchrun", "fabric.emulate=true")
    assert one_line(neuro_inside("train", *words, cwd=tmp_path)).startswith("fabric.emulate=True: needs fabric.launcher=mpi")
    line = one_line(neuro_inside("train", "fabric.launcher=slurm", cwd=tmp_path))
    assert line == "fabric.launcher=slurm: must be one of mpi, torchrun"


def test_a_slurm_job_starts_its_ranks_by_srun(tmp_path):
    line = one_line(neuro_inside("train", "fabric=gloo", "ranks=2", cwd=tmp_path, SLURM_JOB_ID="7"))
    assert line.startswith("fabric.launcher=torchrun: starts ranks on one machine")


@pytest.mark.slow
def test_the_doctor_lets_two_ranks_meet():
    (finding,) = doctor.torch_ranks()
    assert finding.text == "gloo on this machine, for torchrun and fabric=gloo: 2 ranks met"


def test_one_rank_trains_in_the_process_of_the_command(tmp_path):
    well(neuro_inside("train", *WORDS, "ranks=1", "generations=1", "hydra.run.dir=run", cwd=tmp_path))
    assert (tmp_path / "run" / "summary.json").exists()
