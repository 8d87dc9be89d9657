"""One command at a time works in a run folder, and none writes through a symbolic link that lies there."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked import Forked
from support.inside import neuro_inside, one_line, well
from support.tables import rows_of
from support.waiting import until
from support.worlds import clean_environment, descendants, needs_mpi, wait_for_rows

from neuro_cli.core.errors import UserError
from neuro_cli.launch import lock

SMALL = ("population=8", "batch_size=16", "threads=1", "checkpoint.every=5", "evaluate.every=1000")
ENDLESS = (*SMALL, "generations=1000000")


@pytest.fixture(autouse=True)
def _none_held():
    yield
    lock.drop()


def started(*arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "neuro_cli", *arguments]
    return Forked(command, cwd=cwd, env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def content(folder: Path) -> dict[str, bytes]:
    """All files of a run, but for what a run at work writes to."""
    moving = ("metrics.csv", "log.txt")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in moving and path.parent.name != "checkpoints"
    }


@pytest.mark.parametrize("how", ["moved", *(pytest.param(how, marks=pytest.mark.slow) for how in ("replaced", "removed"))])
def test_a_second_command_is_refused_and_a_moved_folder_ends_the_first(how, tmp_path):
    """No half of a run lies in a folder of the old name; `replaced`: another folder has that name by then."""
    run, away = tmp_path / "run", tmp_path / "away"
    process = started("train", *ENDLESS, "hydra.run.dir=run", cwd=tmp_path)
    try:
        wait_for_rows(run, 6, process)
        before = content(run)
        for command in (("resume", "run"), ("resume", "run", "generations=2000000", "ranks=2", "distribution=replicated")):
            text = one_line(neuro_inside(*command, cwd=tmp_path))
            assert text.startswith(f"{run}: another command works on this run (process ")
        assert content(run) == before
        run.rename(away)
        if how == "replaced":
            run.mkdir()
            (run / "own.txt").write_text("another's")
        if how == "removed":
            shutil.rmtree(away)
        said = process.communicate(timeout=240)[1].decode()
    finally:
        process.kill()
    assert process.returncode == 2, said
    assert said.splitlines()[-1].startswith("neuro: error: run: it was moved or removed while its run was at work"), said
    assert run.exists() == (how == "replaced")
    assert [path.name for path in run.glob("*")] == ["own.txt"] * (how == "replaced")
    if how != "removed":
        well(neuro_inside("resume", "away", "generations=1000000", "time_limit=0.1", cwd=tmp_path))
        rows = [int(row["generation"]) for row in rows_of(away / "metrics.csv")]
        assert rows == list(range(1, len(rows) + 1))


@needs_mpi
def test_ranks_that_outlive_their_command_hold_the_lock(tmp_path):
    """The command alone is killed: its world is asked to stop, and nobody comes in before it has."""
    process = started("train", *ENDLESS, "ranks=2", "distribution=replicated", "hydra.run.dir=run", cwd=tmp_path)
    wait_for_rows(tmp_path / "run", 6, process)
    ranks = [pid for pid in descendants(process.pid) if b"neuro_cli" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)
    try:
        process.kill()
        process.wait()
        assert "another command works on this run" in one_line(neuro_inside("resume", "run", cwd=tmp_path))
    finally:
        for pid in ranks:
            os.kill(pid, signal.SIGCONT)
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in ranks))
    well(neuro_inside("resume", "run", "ranks=null", "time_limit=0.1", cwd=tmp_path))


@pytest.mark.slow  # by default a second command meets the first
def test_two_resumes_at_once(tmp_path):
    """D7: both were let in, doubled rows and swept each other's checkpoints."""
    well(neuro_inside("train", *SMALL, "generations=5", "hydra.run.dir=run", cwd=tmp_path))
    both = [started("resume", "run", "generations=1000000", cwd=tmp_path) for _ in range(2)]
    until(lambda: any(process.poll() is not None for process in both))
    assert [process.poll() for process in both].count(2) == 1  # however late it came: the other has no end
    running = next(process for process in both if process.poll() is None)
    wait_for_rows(tmp_path / "run", 20, running)
    running.send_signal(signal.SIGTERM)
    said = [process.communicate(timeout=240)[1].decode() for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], said
    refused = said[[process.returncode for process in both].index(2)]
    assert refused.count("\n") == 1
    assert "another command works on this run" in refused
    rows = [int(row["generation"]) for row in rows_of(tmp_path / "run" / "metrics.csv")]
    assert rows == list(range(1, len(rows) + 1))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["generations"] == len(rows) >= 20


@pytest.mark.parametrize("verb", [("train",), ("evolve", "cluster.local_peers=1"), ("search",)])
def test_a_new_run_in_a_folder_that_is_taken_writes_nothing(verb, tmp_path):
    """Before Hydra writes its files, which would be those of the other command."""
    run = tmp_path / "run"
    with _holding(run):
        text = one_line(neuro_inside(*verb, "hydra.run.dir=run", cwd=tmp_path))
        assert "another command works on this run" in text
        assert os.listdir(run) == [lock.LOCK]


def test_the_system_drops_the_lock_of_a_process_that_ends(tmp_path, monkeypatch):
    holding = _holding(tmp_path)
    with pytest.raises(UserError, match=r"another command works on this run \(process \d+ on "):
        lock.take(tmp_path)
    holding.process.kill()
    holding.process.wait()
    lock.take(tmp_path)
    lock.take(tmp_path)  # its own
    lock.drop(tmp_path)
    holding = _holding(tmp_path, seconds="2")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    lock.take(tmp_path)  # a job that SLURM has started again waits for a lost node
    assert holding.process.wait() == 0


def test_a_lock_that_was_removed_meanwhile_counts_for_nothing(tmp_path):
    lock.take(tmp_path)
    lock.drop(tmp_path, remove=True)
    assert os.listdir(tmp_path) == []
    lock.take(tmp_path)
    assert os.listdir(tmp_path) == [lock.LOCK]


class _holding:
    """Another process that has the lock of a folder."""

    def __init__(self, run: Path, seconds: str = "600") -> None:
        program = "import sys,time; from pathlib import Path; from neuro_cli.launch import lock\n"
        program += "lock.take(Path(sys.argv[1])); print('there', flush=True); time.sleep(float(sys.argv[2]))"
        command = [sys.executable, "-c", program, str(run), seconds]
        self.process = Forked(command, env=clean_environment(), stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"there\n"

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    assert neuro_inside("train", *SMALL, "generations=5", "hydra.run.dir=run", cwd=folder).returncode == 0
    assert neuro_inside("resume", "run", "generations=6", cwd=folder).returncode == 0
    assert neuro_inside("report", "run", cwd=folder).returncode == 0
    return folder / "run"


WRITTEN = (
    "log.txt", "metrics.csv", "summary.json", "curves.png", ".lock", "summary.json.7.tmp", ".hydra", ".hydra/resumed.yaml",
    ".hydra/resumed.yaml.7.tmp", "checkpoints", "checkpoints/state.json", "checkpoints/state.json.7.tmp", "checkpoints/last_step",
    "best", "weights", "mlflow", "mlflow/runs.db", "mlflow.json", "comet",
)  # fmt: skip


def bytes_of(path: Path) -> dict[str, bytes] | bytes:
    return content(path) if path.is_dir() else path.read_bytes()


def test_resume_writes_through_no_link(finished, tmp_path):
    """The lock refuses all of them, and a command takes it before it writes."""
    for number, name in enumerate(WRITTEN):
        folder = tmp_path / str(number)
        run, outside = shutil.copytree(finished, folder / "run"), folder / "outside"
        place = run / name
        place.parent.mkdir(exist_ok=True)
        if place.exists():
            place.rename(outside)
        else:
            outside.write_text("the user's own")
        place.symlink_to(outside)
        before = bytes_of(outside)
        with pytest.raises(UserError, match=f"^{re.escape(str(place))}: it is a symbolic link"):
            lock.take(run)
        if name in ("log.txt", "metrics.csv", "summary.json.7.tmp"):
            said = one_line(neuro_inside("resume", "run", "generations=7", cwd=folder))
            assert said.startswith(f"{place}: it is a symbolic link")
        assert bytes_of(outside) == before


def test_report_writes_through_no_link(finished, tmp_path):
    sweep = tmp_path / "sweep"
    shutil.copytree(finished, sweep / "0")
    for name, options in (("report.html", ()), ("sweep.csv", ("html=false",))):
        outside = tmp_path / f"outside-{name}"
        shutil.copy(finished / "report.html", outside)
        before = outside.read_bytes()
        (sweep / name).unlink(missing_ok=True)
        (sweep / name).symlink_to(outside)
        done = neuro_inside("report", "sweep", *options, cwd=tmp_path)
        assert done.returncode == 2
        assert f"{name}: it is a symbolic link" in done.stderr
        assert outside.read_bytes() == before
        (sweep / name).unlink()


def test_links_that_are_the_users_own_are_left_alone(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    (run / "notes").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(run)  # nor does the folder's own name matter
    well(neuro_inside("resume", "linked", "generations=7", cwd=tmp_path))


@pytest.mark.parametrize("config", ["seed: 1\nsteps: ${generations}\n", "seed: 1\nmodel: {}\ntask: {}\nalgo: {}\n"])
def test_a_run_that_never_began_says_so(config, tmp_path):
    """train said to resume it, resume that an interpolation is not resolved."""
    run = tmp_path / "run"
    (run / ".hydra").mkdir(parents=True)
    (run / ".hydra" / "config.yaml").write_text(config)
    (run / ".hydra" / "hydra.yaml").touch()
    (run / "log.txt").touch()
    (run / lock.LOCK).touch()
    said = "its run never began: its command was ended before the first checkpoint; the folder can go"
    assert one_line(neuro_inside("train", "hydra.run.dir=run", cwd=tmp_path)) == f"run: {said}"
    if "${" in config:
        for verb in ("resume", "evaluate", "export"):
            assert one_line(neuro_inside(verb, "run", cwd=tmp_path)) == f"run: {said}"
    with _holding(run):  # a command that still loads
        assert "already contains a run" in one_line(neuro_inside("train", "hydra.run.dir=run", cwd=tmp_path))
    (run / "metrics.csv").touch()
    assert "already contains a run" in one_line(neuro_inside("train", "hydra.run.dir=run", cwd=tmp_path))
