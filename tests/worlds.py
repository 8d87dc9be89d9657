"""Starts real MPI worlds for the tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MPIEXEC = Path(sys.executable).parent / "mpiexec"
LAUNCHER = str(MPIEXEC) if MPIEXEC.exists() else shutil.which("mpiexec")

needs_mpi = pytest.mark.skipif(LAUNCHER is None, reason="no mpiexec: pip install 'neuro-cli[mpi]'")


def clean_environment() -> dict[str, str]:
    """This environment without what a launcher or a debugging user set, and one thread an operator."""
    prefixes = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "NEURO_", "HYDRA_FULL_ERROR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return kept | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def neuro(*arguments: str, cwd: Path, ranks: int = 0, timeout: float = 300, **environment: str):
    """``neuro ARGUMENTS``, under mpiexec when ``ranks`` > 0: the finished process with its text."""
    command = [sys.executable, "-m", "neuro_cli", *arguments]
    return _run(command, cwd, ranks, timeout, environment)


def program(path: Path, *arguments: str, cwd: Path, ranks: int, timeout: float = 300):
    """A Python program under mpiexec."""
    return _run([sys.executable, str(path), *arguments], cwd, ranks, timeout, {})


def _run(command: list[str], cwd: Path, ranks: int, timeout: float, environment: dict[str, str]):
    if ranks:
        command = [str(LAUNCHER), "-n", str(ranks), *command]
    env = clean_environment() | environment
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout)
