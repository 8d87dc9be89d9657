"""``ranks=N`` starts a world of MPICH or Open MPI that stops cleanly, ends on all ranks and leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line
from support.waiting import until
from support.worlds import AS_ROOT, MPIS, Mpi, clean_environment, descendants, neuro, wait_for_rows

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.mpi import library_name
from neuro_cli.launch import launcher as launch
from neuro_cli.launch import openmpi
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.runner import stop_signals

SETTING = ("population=8", "batch_size=16", "threads=1", "distribution=replicated", "generations=100000", "hydra.run.dir=run")
NO_ROOT = dict.fromkeys(AS_ROOT, "0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).parent / "slow_nets.py", tmp_path)
    (tmp_path / "tmp").mkdir()
    return tmp_path


@pytest.fixture
def start(folder: Path, mpi: Mpi) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts ``neuro train ranks=2`` in ``folder``; what is left of it ends with the test."""
    command = mpi.command(0, "-m", "neuro_cli", "train", *SETTING, "ranks=2")
    started: list[subprocess.Popen[bytes]] = []

    def starts(*overrides: str) -> subprocess.Popen[bytes]:
        environment = clean_environment() | {"TMPDIR": str(folder / "tmp")}
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen([*command, *overrides], cwd=folder, env=environment, stdout=output, stderr=output)
        started.append(process)
        return process

    yield starts
    for process in started:
        for pid in [*descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def left_in(folder: Path) -> list[str]:
    """What Open MPI left in its temporary folder; torch too may leave something there."""
    return [path.name for path in folder.iterdir() if path.name.startswith(("ompi", "prte", "pmix"))]


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]


def ranks_of(pids: list[int]) -> list[int]:
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in pids}
    return [pid for pid, command in commands.items() if command[1:4] == [b"-P", b"-m", b"neuro_cli"]]


@pytest.mark.parametrize(
    ("mpi", "number"),
    [
        pytest.param("own", signal.SIGTERM, marks=pytest.mark.slow),  # by default to ranks of tests/launch/test_lock.py
        pytest.param("openmpi", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("openmpi", signal.SIGTERM, marks=pytest.mark.slow),
    ],
    indirect=["mpi"],
)
def test_a_signal_ends_the_generation_and_writes_a_checkpoint(folder, start, number):
    """Open MPI's mpiexec would leave the ranks one second; a generation takes 1.6."""
    process = start("model._target_=slow_nets.Slow", "task.fitness=accuracy", "checkpoint.every=1000")
    wait_for_rows(folder / "run", 1, process)
    world = descendants(process.pid)
    time.sleep(0.2)  # into the next generation
    process.send_signal(number)
    assert process.wait(240) == 0, (folder / "output").read_text()
    done = CheckpointStore(folder / "run", 1).generations()[-1]
    assert 1 <= done <= 3
    assert f"stopped after generation {done}" in (folder / "run" / "log.txt").read_text()
    assert (folder / "run" / "summary.json").exists()
    assert alive(world) == []
    assert left_in(folder / "tmp") == []
    assert "\x1b" not in (folder / "output").read_text(), "a file is no terminal"


def failed_to_load(folder: Path, code: int, monkeypatch: pytest.MonkeyPatch, number: int = 0) -> tuple[int, list[str]]:
    """Exit code and lines of a resume whose world ends with ``code`` before it says anything, after signal ``number``."""

    def world(*_: object) -> int:
        if number:
            stop_signals.hear(number)
        return code

    with monkeypatch.context() as patch:
        patch.setattr(launch, "launch", world)
        done = neuro_inside("resume", "run", "generations=3", "ranks=2", cwd=folder)
    return done.returncode, done.stderr.splitlines()


def test_a_world_that_ends_while_it_loads_says_so(tmp_path, monkeypatch):
    """Its log ends with an earlier session's failure, which it took for this one's; a signal took its line as well."""
    setting = [text for text in SETTING if not text.startswith("generations")]
    assert neuro_inside("train", *setting, "generations=2", cwd=tmp_path).returncode == 0
    with (tmp_path / "run" / "log.txt").open("a") as file:
        file.write("2026-11-27 10:00:00,000 INFO neuro_cli.cli.verbs.train: failed: an earlier one\n")
    text = "neuro: error: the world of 2 ranks ended with exit code"
    for code in (9, 137, 15):
        killed = f"{text} {code}: a rank was killed; continue with: neuro resume run"
        assert failed_to_load(tmp_path, code, monkeypatch) == (1, [killed])
    for code in (138, 15, 2, 1):
        reason = "it was stopped before it could write a checkpoint"
        stopped = f"{text} {code} after SIGTERM: {reason}; continue with: neuro resume run"
        assert failed_to_load(tmp_path, code, monkeypatch, signal.SIGTERM) == (1, [stopped])
    assert failed_to_load(tmp_path, 2, monkeypatch, signal.SIGINT) == (130, ["neuro: interrupted"])
    assert failed_to_load(tmp_path, 1, monkeypatch) == (1, [])  # a rank said why


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("mpi", ["own", "openmpi"], indirect=True)
def test_a_signal_while_a_world_loads_is_one_line(folder, start, number):
    process = start()
    ranks = until(lambda: len(found := ranks_of(descendants(process.pid))) > 1 and found)
    os.kill(ranks[1] if number == signal.SIGKILL else process.pid, number)
    assert process.wait(240) == 1
    own = [line for line in (folder / "output").read_text().splitlines() if line.startswith("neuro: ")]
    assert len(own) == 1, own
    assert own[0].startswith("neuro: error: the world of 2 ranks ended with exit code ")
    assert own[0].endswith("; it had not begun, so run can be removed")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="Open MPI refuses root alone")
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_root_is_told_what_open_mpi_wants(folder, mpi):
    done = neuro("train", *SETTING, "ranks=2", cwd=folder, mpi=mpi, **NO_ROOT)
    assert one_line(done) == "ranks=2: Open MPI's mpiexec does not run as root unless told to: " + openmpi.ROOT_FIX
    assert not (folder / "run").exists()
    told = neuro("doctor", cwd=folder, mpi=mpi, **NO_ROOT).stdout
    assert "mpiexec: Open MPI's, refuses to run as root" in told
    assert f"fix: {openmpi.ROOT_FIX}\n" in told


def test_the_mpiexec_of_another_mpi_is_named(folder):
    own, other = MPIS["own"](), MPIS["openmpi"]()
    if own.missing or other.missing or own.kind == "openmpi":
        pytest.skip(own.missing or other.missing or "one MPI only")
    mixed = Mpi("mixed", other.python, own.mpiexec)
    tidy = {"TMPDIR": str(folder / "tmp"), "OMPI_MCA_btl": "self"}  # ranks that Open MPI's own mpiexec did not start leave files
    done = neuro("train", *SETTING, cwd=folder, ranks=2, mpi=mixed, **tidy)
    lines = [line for line in done.stderr.splitlines() if line.startswith("neuro:")]
    assert done.returncode == 2, done.stderr
    (line,) = lines
    assert line.startswith("neuro: error: mpiexec started 2 ranks, but they cannot meet: it belongs to another MPI than ")
    assert "Open MPI v" in line
    assert "suspicious" not in done.stderr
    assert not (folder / "run").exists()


def test_no_mpiexec_at_all(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^ranks: no mpiexec next to .*/python or on PATH: pip install '\.\[mpi\]'"):
        launch.launcher()


def test_ranks_that_wait_leave_their_core_where_there_are_too_few(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.delenv("OMPI_MCA_mpi_yield_when_idle", raising=False)
    for name in AS_ROOT:
        monkeypatch.setenv(name, "1")
    before, name = dict(os.environ) | {launch.STARTED: "1"}, "OMPI_MCA_mpi_yield_when_idle"
    starts = launch.Launcher("mpiexec", "openmpi")
    assert starts.environment(2) == before
    assert starts.environment(3) == before | {name: "1"}
    assert launch.Launcher("mpiexec", "mpich").environment(3) == before
    monkeypatch.setenv(name, "0")  # the user's word counts
    assert starts.environment(3) == before | {name: "0"}


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("Open MPI v5.0.11, package: Open MPI builder@host Distribution, ident: 5.0.11\0", "Open MPI v5.0.11"),
        ("MPICH Version:      5.0.2\nMPICH Release date: today", "MPICH Version: 5.0.2"),
    ],
)
def test_library_names(version, name):
    assert library_name(version) == name
