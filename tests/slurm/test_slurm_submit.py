"""Sweeps on a real SLURM: jobs of two ranks, kills, time limits, preemption, Ctrl-C."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.forked import Forked
from support.inside import neuro_inside, well
from support.tables import rows_of, sha_of
from support.waiting import until
from support.worlds import wait_for_rows

SMALL = ("population=8", "batch_size=16", "threads=1", "evaluate.every=1000")
SLURM = ("-m", "hydra/launcher=slurm", "ranks=2", "distribution=chromosome_updates")
LONG = (*SMALL, "model._target_=napping_net.NappingNet", "checkpoint.every=20")
NAP = "0.03"  # seconds of each of the 4 members that a rank scores in a generation

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("sweeps")
    shutil.copy(Path(__file__).parent / "napping_net.py", place)
    return place


@pytest.fixture(scope="module")
def start(folder, slurm) -> Iterator[Start]:
    """Starts ``neuro train`` on our SLURM; what still runs at the end is interrupted."""
    begun = []

    def started(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "neuro_cli", "train", *arguments]
        pipe = subprocess.PIPE
        process = Forked(command, cwd=folder, env=slurm | {"NAP": NAP}, stdout=pipe, stderr=pipe, text=True)
        begun.append(process)
        return process

    yield started
    for process in begun:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)


ALONE = "_N/A"  # end of the name of a job that is no element of an array


def jobs_of(slurm: dict[str, str], sweep: Path) -> list[str]:
    """SLURM's names of the sweep's jobs that wait or run."""
    asked = subprocess.run(["squeue", "-h", "-o", "%F_%K %k"], env=slurm, capture_output=True, text=True, check=True)
    return sorted(line.split()[0] for line in asked.stdout.splitlines() if line.split()[-1] == str(sweep))


def table(sweep: Path) -> list[dict[str, str]]:
    return rows_of(sweep / "sweep.csv")


def processes_of(folder: Path) -> list[str]:
    """Command lines of living processes that work in ``folder``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            there = (process / "cwd").readlink()
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if there == folder and any(name in line for name in ("neuro_cli", "submitit", "fork_server")):
            found.append(line)
    return found


def nothing_left(slurm: dict[str, str], sweep: Path) -> None:
    """Neither jobs nor processes: a job that has ended is completing for a moment."""
    until(lambda: jobs_of(slurm, sweep) == [])
    until(lambda: processes_of(sweep.parent) == [])


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(2,), (1, 2)])
def test_jobs_of_two_ranks(folder, start, slurm, seeds):
    name, jobs = f"jobs-{len(seeds)}", 2 * len(seeds)
    seed = "seed=" + ",".join(map(str, seeds))
    sweep = start(*SMALL, *SLURM, "generations=3", "algo=openai_es,snes", seed, f"hydra.sweep.dir={name}")
    out, err = sweep.communicate(timeout=400)
    assert sweep.returncode == 0, err
    rows = table(folder / name)
    for row in rows:
        row.setdefault("seed", str(seeds[0]))  # the table shows what differs
    assert [(row["run"], row["algo"], row["seed"], row["state"], row["generations"], row["ranks"]) for row in rows] == [
        (str(job), algo, str(seed), "finished", "3", "2")
        for job, (algo, seed) in enumerate((algo, seed) for algo in ("openai_es", "snes") for seed in seeds)
    ]
    assert out.count("finished") == jobs
    assert len({sha_of(folder / name / str(job)) for job in range(jobs)}) == jobs
    alone = ("generations=3", "algo=snes", "seed=2", "distribution=local", f"hydra.run.dir=alone-{name}")
    assert neuro_inside("train", *SMALL, *alone, cwd=folder).returncode == 0
    assert sha_of(folder / name / str(jobs - 1)) == sha_of(folder / f"alone-{name}")
    until(lambda: jobs_of(slurm, folder / name) == [])
    assert list((folder / name).rglob("*.pkl")) == []


def kill(folder: Path, job: int, rank: bool) -> None:
    """SIGKILL to a rank of the job of the sweep in ``folder``, or to the process that SLURM started for the job."""
    mark = f"{folder.name}/{job}" if rank else f"{folder}/.submitit/%j"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            line = (process / "cmdline").read_bytes().decode().split("\0")
            there = (process / "cwd").readlink()
        except OSError:
            continue
        its = there == folder.parent and f"SLURM_ARRAY_TASK_ID={job}".encode() in environment
        if its and mark in line and Path(line[0]).name.startswith("python"):
            os.kill(int(process.name), signal.SIGKILL)
            return
    raise AssertionError(f"no process with {mark}")


@pytest.mark.slow  # by default a job is queued again, and ranks are killed without SLURM
def test_killed_jobs_and_one_with_bad_input_are_reported_and_the_rest_finish(folder, start, slurm):
    """submitit asks SLURM ever more seldom: it takes a while until it knows of a job whose own process was killed."""
    sweep = start(*LONG, *SLURM, "generations=40", "population=8,12,7,10", "hydra.sweep.dir=killed")
    for job in (0, 1):
        wait_for_rows(folder / "killed" / str(job), 2, sweep)
        kill(folder / "killed", job, rank=job == 0)
    _, err = sweep.communicate(timeout=400)
    assert sweep.returncode == 1, err
    killed, silent, bad, fine = table(folder / "killed")
    assert [row["state"] for row in (killed, silent, bad, fine)] == ["failed", "failed", "failed", "finished"]
    assert killed["reason"] == "the world of 2 ranks ended with exit code 137"
    assert int(killed["generations"]) >= 2
    # its ranks have a moment to stop in good order
    assert silent["reason"].startswith(("SLURM: FAILED; ended without a word", "SLURM: FAILED; stopped after generation"))
    assert bad["reason"] == "population=7: antithetic pairs need an even population"
    assert [fine[name] for name in ("run", "population", "generations", "ranks")] == ["3", "10", "40", "2"]
    alone = (*LONG, "population=10", "generations=40", "distribution=local", "hydra.run.dir=alone-killed")
    assert neuro_inside("train", *alone, cwd=folder, NAP="0").returncode == 0
    assert sha_of(folder / "killed" / "3") == sha_of(folder / "alone-killed")
    assert list((folder / "killed").rglob("*.pkl")) == []
    nothing_left(slurm, folder / "killed")


@pytest.mark.slow
def test_ctrl_c_cancels_the_jobs(folder, start, slurm):
    sweep = start(*LONG, *SLURM, "generations=1000", "seed=1,2", "hydra.sweep.dir=interrupted")
    wait_for_rows(folder / "interrupted" / "0", 2, sweep)
    sweep.send_signal(signal.SIGINT)
    out, err = sweep.communicate(timeout=120)
    assert sweep.returncode == 130, err
    nothing_left(slurm, folder / "interrupted")
    first = table(folder / "interrupted")[0]
    # SLURM's SIGTERM came first: the run ended with a checkpoint
    assert (first["state"], first["reason"].split("(")[0]) == (
        "stopped",
        "stopped after generation " + first["generations"] + " ",
    )
    assert "interrupted: the jobs of this sweep are cancelled" in err
    assert "stopped after generation" in out


def went_on_to_the_same_bits(folder: Path, sweep: str, generations: int, seeds: tuple[int, ...] = (1, 2)) -> None:
    """Each job of the sweep over ``seeds`` stopped, went on, and is what a run that never stopped is."""
    for job, seed in enumerate(seeds):
        log = (folder / sweep / str(job) / "log.txt").read_text()
        assert "stopped after generation" in log
        assert "SLURM started this job again (1): it resumes from generation" in log
        assert [int(row["generation"]) for row in rows_of(folder / sweep / str(job) / "metrics.csv")] == list(
            range(1, generations + 1)
        )
        name = f"{sweep}-whole-{seed}"
        whole = (*LONG, f"generations={generations}", f"seed={seed}", "distribution=local", f"hydra.run.dir={name}")
        well(neuro_inside("train", *whole, cwd=folder, NAP="0"))
        assert sha_of(folder / sweep / str(job)) == sha_of(folder / name)


@pytest.mark.parametrize("seeds", [(1,), pytest.param((1, 2), marks=pytest.mark.slow)])
def test_preempted_jobs_go_on_to_the_same_bits(folder, start, slurm, seeds):
    """One is queued again by SLURM, which sends SIGTERM and SIGKILL; another gets the signal that announces its end."""
    name = f"preempted-{len(seeds)}"
    sweep = start(*LONG, *SLURM, "generations=60", "seed=" + ",".join(map(str, seeds)), f"hydra.sweep.dir={name}")
    for job, command in zip(range(len(seeds)), (["scontrol", "requeue"], ["scancel", "--signal=USR2"]), strict=False):
        wait_for_rows(folder / name / str(job), 2, sweep)
        its = next(each for each in jobs_of(slurm, folder / name) if each.endswith((f"_{job}", ALONE)))
        subprocess.run([*command, its.removesuffix(ALONE)], env=slurm, check=True)
    out, err = sweep.communicate(timeout=500)
    assert sweep.returncode == 0, err
    assert out.count("finished") == len(seeds)
    went_on_to_the_same_bits(folder, name, 60, seeds)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_time_limit_that_is_too_short(folder, start, slurm):
    """SLURM's shortest limits are minutes: a job has to last about as long."""
    times = ("hydra.launcher.timeout_min=2", "hydra.launcher.signal_delay_s=45")
    sweep = start(*LONG, *SLURM, "generations=1200", "seed=1,2", *times, "hydra.sweep.dir=limited")
    _, err = sweep.communicate(timeout=1100)
    assert sweep.returncode == 0, err
    for job in (0, 1):
        logs = list((folder / "limited" / ".submitit").glob(f"*_{job}/*.err"))
        assert any("this job is timed-out" in log.read_text() for log in logs)
    went_on_to_the_same_bits(folder, "limited", 1200)


def neuro(folder: Path, slurm: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "neuro_cli", *arguments]
    return subprocess.run(command, cwd=folder, env=slurm | {"NAP": NAP}, capture_output=True, text=True, timeout=400)


@pytest.mark.slow
def test_a_detached_sweep_is_followed_and_goes_on(folder, start, slurm):
    """Submitted and left, cancelled by hand while a job runs and another waits, then resumed."""
    one_at_a_time = "hydra.launcher.array_parallelism=1"
    line = (*LONG, *SLURM, "generations=300", "seed=1,2", one_at_a_time, "sweep.detach=true", "hydra.sweep.dir=detached")
    sweep = start(*line)
    out, err = sweep.communicate(timeout=200)
    assert sweep.returncode == 0, err
    assert "neuro: submitted; neuro report detached shows progress" in out
    until(lambda: (folder / "detached" / "0" / "metrics.csv").exists())
    assert neuro(folder, slurm, "report", "detached", "html=false").returncode == 0
    assert [row["state"] for row in table(folder / "detached")] == ["running", "waiting"]
    again = neuro(folder, slurm, "resume", "detached")
    assert again.returncode == 2
    assert "of its jobs wait or run on SLURM" in again.stderr
    names = {name.split("_")[0] for name in jobs_of(slurm, folder / "detached")}
    subprocess.run(["scancel", *names], env=slurm, check=True)
    until(lambda: jobs_of(slurm, folder / "detached") == [])
    well(neuro(folder, slurm, "resume", "detached", "trust=napping_net"))
    until(lambda: not jobs_of(slurm, folder / "detached"))
    assert neuro(folder, slurm, "report", "detached", "html=false").returncode == 0
    assert [(row["state"], row["generations"]) for row in table(folder / "detached")] == [("finished", "300")] * 2
    whole = (*LONG, "generations=300", "seed=1", "hydra.run.dir=detached-whole")
    assert neuro_inside("train", *whole, cwd=folder, NAP="0").returncode == 0
    assert sha_of(folder / "detached" / "0") == sha_of(folder / "detached-whole")
