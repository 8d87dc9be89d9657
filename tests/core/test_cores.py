"""A process takes no more cores than it may use: by affinity, by quotas of its control groups, in a job of SLURM."""

import os
from pathlib import Path

import pytest

import neuro_cli
from neuro_cli.core.machine.cores import core_limit, usable_cores

MANY = 2**31


@pytest.fixture(autouse=True)
def _outside_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)


def limit(folder: Path, own: str, files: dict[str, str]) -> int:
    """The limit with control groups of these ``files``, and ``own`` as /proc/self/cgroup."""
    for name, text in files.items():
        (folder / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup" / name).write_text(f"{text}\n")
    (folder / "own").write_text(own)
    return core_limit(folder / "cgroup", folder / "own")


V1 = "4:cpu,cpuacct:/a/b\n3:memory:/c\n"


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "300000 100000"}, 3),
        ("0::/\n", {"cpu.max": "max 100000"}, MANY),
        ("0::/\n", {"cpu.max": "250000 100000"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/\n", {"cpu.max": "torn"}, MANY),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "400000 100000"}, 4),
        ("0::/a/b\n", {"a/b/cpu.max": "200000 100000", "a/cpu.max": "400000 100000", "other/cpu.max": "100000 100000"}, 2),
        ("0::/not/seen/from/here\n", {"cpu.max": "500000 100000"}, 5),
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "200000", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000"}, 2),
        (V1, {"cpu/a/cpu.cfs_quota_us": "150000", "cpu/a/cpu.cfs_period_us": "50000"}, 3),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "-1", "cpu/a/b/cpu.cfs_period_us": "100000"}, MANY),
        (V1, {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ("1:cpu:/\n0::/x\n", {"unified/x/cpu.max": "600000 100000"}, 6),
        ("", {}, MANY),
    ],
)
def test_quotas(own: str, files: dict[str, str], cores: int, tmp_path: Path) -> None:
    assert limit(tmp_path, own, files) == cores


@pytest.mark.parametrize(
    ("variables", "cores"),
    [
        ({}, MANY),
        ({"SLURM_CPUS_PER_TASK": "4"}, 4),
        ({"SLURM_CPUS_PER_TASK": "4", "SLURM_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "2"}, 8),
        ({"SLURM_CPUS_PER_TASK": "4", "SLURM_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "3"}, 4),
        ({"SLURM_CPUS_PER_TASK": "2", "SLURM_TASKS_PER_NODE": "8", "SLURM_STEP_TASKS_PER_NODE": "3"}, 6),
    ],
)
def test_a_job_of_slurm(variables: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert limit(tmp_path, "", {}) == MANY, "no job"
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert limit(tmp_path, "", {}) == cores


def test_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 5})
    before = usable_cores()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    for each, cores in ((1, 1), (2, min(2, before)), (16, before)):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", str(each))
        assert usable_cores() == cores <= 3


def test_cores_are_counted_in_one_place() -> None:
    """Eleven places counted those of the whole machine in a container with a quota."""
    package = Path(neuro_cli.__file__).parent
    counting = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if any(name in path.read_text() for name in ("sched_getaffinity", "cpu_count"))
    }
    assert counting == {"core/machine/cores.py", "fabric/mpi.py"}  # ranks of a machine, each bound to its own cores
