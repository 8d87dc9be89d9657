"""How a world is started inside a SLURM job, with stand-ins for SLURM's programs; tests/slurm has the real ones."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line

from neuro_cli.launch import slurm_job, slurm_submit
from neuro_cli.launch.launcher import Launcher, mpiexec_launcher, world_launcher

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2")
SEGMENT = "62.0", 0x606BCC97  # job and step of a world, and the number that MPICH 5.0.2 gave its shared memory


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of PATH, in a SLURM job that was started once."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "NEURO_", "SUBMITIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_JOB_ID", "62")
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("offered", "setting", "kind", "mpi"),
    [
        ("none pmi2 pmix", None, "srun", "pmi2"),
        ("none pmi2 pmix", "pmix", "srun", "pmix"),
        ("none pmix", None, "mpiexec", ""),
        ("none pmi2", "none", "mpiexec", ""),
    ],
)
def test_the_launcher_in_a_job(programs, monkeypatch, caplog, offered, setting, kind, mpi):
    monkeypatch.setattr("neuro_cli.launch.launcher.mpiexec_launcher", lambda: Launcher("/x/mpiexec", "mpich"))
    stand_in(programs, "srun", f"echo MPI plugin types are... >&2; printf '%s\\n' {offered} >&2")
    if setting:
        monkeypatch.setenv("NEURO_SRUN_MPI", setting)
    with caplog.at_level("INFO", "neuro_cli"):
        found = world_launcher()
    if kind == "srun":
        assert found == Launcher(str(programs / "srun"), "srun", mpi)
        assert caplog.text == ""
    else:
        assert found == Launcher("/x/mpiexec", "mpich")
        assert "mpiexec starts the ranks" in caplog.text


def test_outside_a_job_mpiexec_starts_the_world(programs, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID")
    stand_in(programs, "srun", "echo pmi2")
    monkeypatch.setattr("neuro_cli.launch.launcher.mpiexec_launcher", lambda: Launcher("/x/mpiexec", "mpich"))
    assert world_launcher().path == "/x/mpiexec"
    mpiexec_launcher.cache_clear()


def test_commands_and_signals(monkeypatch):
    srun = Launcher("srun", "srun", "pmi2")
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    command = srun.command(3, ["neuro"])
    assert command[:2] == ["srun", "--mpi=pmi2"]
    assert command[-3:] == ["-n", "3", "neuro"]
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    assert "--cpus-per-task=4" in srun.command(3, ["neuro"])
    # srun would kill its ranks on SIGTERM; MPICH's mpiexec does not know SIGUSR2
    assert {srun.passed_on(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)} == {signal.SIGUSR2}
    mpich = Launcher("mpiexec", "mpich")
    assert [mpich.passed_on(number) for number in (signal.SIGINT, signal.SIGUSR2)] == [signal.SIGINT, signal.SIGTERM]


def test_a_new_step_sees_the_job_and_not_the_present_step():
    step = {"SLURM_NTASKS": "1", "SLURM_NNODES": "1", "SLURM_STEP_ID": "0", "SLURM_MPI_TYPE": "none", "SLURM_PROCID": "0"}
    job = {"SLURM_JOB_ID": "62", "SLURM_JOB_NUM_NODES": "2", "SLURM_CONF": "/x", "SLURM_RESTART_COUNT": "1", "PATH": "/bin"}
    assert slurm_job.job_environment(step | job) == job


def test_only_this_jobs_shared_memory_is_cleared(programs):
    stand_in(programs, "srun", 'while [ "$1" != sh ]; do shift; done; echo "$3" > "$0.said"')
    slurm_job.clear_segments(str(programs / "srun"))
    said = (programs / "srun.said").read_text().split()
    assert said[:2] == ["rm", "-f"]
    assert f"/dev/shm/mpich_shm_{SEGMENT[1]:x}_*" in said
    assert len(set(said[2:])) == 2 * slurm_job.STEPS


def test_a_restarted_job_leaves_its_input_to_the_loop_it_runs_in(programs):
    stand_in(programs, "srun", 'cat > "$0.read"')  # as srun does
    code = f"from neuro_cli.launch import slurm_job; slurm_job.clear_segments({str(programs / 'srun')!r}); print(input())"
    done = subprocess.run([sys.executable, "-c", code], input="seed 2\n", capture_output=True, text=True, timeout=60)
    assert done.stdout == "seed 2\n", done.stderr
    assert (programs / "srun.read").read_text() == ""


def test_a_job_waits_for_its_end_while_it_is_called_running(programs, monkeypatch):
    monkeypatch.setattr(slurm_job.time, "sleep", lambda seconds: None)
    stand_in(
        programs, "squeue", 'echo x >> "$0.said"; if [ $(wc -l < "$0.said") -lt 3 ]; then echo RUNNING; else echo COMPLETING; fi'
    )
    slurm_job.await_end()
    assert len((programs / "squeue.said").read_text().splitlines()) == 3


ON_SLURM = ("train", "-m", *SMALL, "hydra/launcher=slurm")


@pytest.fixture
def cluster(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of a SLURM whose sbatch refuses everything."""
    pytest.importorskip("submitit")
    monkeypatch.delenv("SLURM_JOB_ID")
    for name in ("srun", "squeue", "scancel", "sacct"):
        stand_in(programs, name, "")
    stand_in(programs, "sbatch", 'cp "$1" "$0.said"; echo "sbatch: error: invalid partition specified: night" >&2; exit 1')
    return programs


def test_a_sweep_that_cannot_work_is_refused_in_one_line(cluster, tmp_path, monkeypatch):
    plain = one_line(neuro_inside("train", *SMALL, "hydra/launcher=slurm", cwd=tmp_path))
    assert plain.startswith("hydra/launcher=slurm: it starts the jobs of a sweep, so it needs -m")
    stand_in(cluster, "sacct", "echo Slurm accounting storage is disabled >&2; exit 1")
    assert "sacct does not answer (Slurm accounting storage is disabled)" in one_line(neuro_inside(*ON_SLURM, cwd=tmp_path))
    (cluster / "scancel").unlink()
    (cluster / "sbatch").unlink()
    monkeypatch.setenv("PATH", str(cluster))
    assert "there is no sbatch and no scancel on PATH" in one_line(neuro_inside(*ON_SLURM, cwd=tmp_path))
    monkeypatch.setattr(slurm_submit, "find_spec", lambda name: None)
    assert one_line(neuro_inside(*ON_SLURM, cwd=tmp_path)).endswith("is not installed: pip install '.[slurm]'")
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("options", "tasks"),
    [([], 1), (["ranks=3"], 3), (["ranks=1,4,2"], 4), (["hydra.launcher.additional_parameters.ntasks=7", "ranks=2"], 7)],
)
def test_a_job_asks_for_its_ranks_and_a_refusal_is_one_line(cluster, tmp_path, options, tasks):
    done = neuro_inside(*ON_SLURM, "seed=1,2", *options, "hydra.launcher.partition=night", cwd=tmp_path)
    assert done.returncode == 2
    # submitit shows what sbatch says as it comes
    assert done.stderr.splitlines()[1:] == [
        "neuro: error: hydra/launcher=slurm: sbatch: error: invalid partition specified: night"
    ]
    script = (cluster / "sbatch.said").read_text()
    for line in (f"--ntasks={tasks}", "--nodes=1", "--partition=night", "--signal=USR2@120", "--time=60"):
        assert f"#SBATCH {line}\n" in script
    assert "--mem" not in script
    assert "--mpi=none" in script
