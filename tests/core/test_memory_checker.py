"""Compiled loops under the eyes of programs that see every access: valgrind, and numba's own check of bounds."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from neuro_cli.core.machine.processor import supported

HERE = Path(__file__).parent
PROGRAM = HERE / "memory_program.py"
LOOPS = ("rows", "linear", "sums", "sign_sums", "convolutions", "noise", "winograd", "loop_bounds")
# valgrind emulates a processor without AVX-512, for which the loops are compiled before: to compile takes it an hour
PLAIN = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+sse4.2,+popcnt,+avx,+avx2,+fma,+bmi,+bmi2", "OMP_NUM_THREADS": "1"}


def run(command: list[str], cache: Path, **more: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(cache)} | more
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3000)


@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind here (Debian: valgrind)")
@pytest.mark.skipif(not supported("avx2"), reason="the loops are compiled for AVX2 there")
def test_valgrind_sees_no_access_outside_of_a_block_of_memory(tmp_path):
    """But the one that is made for it to see. What it says of libraries, whose functions have names, is not ours."""
    compiled = run([sys.executable, str(PROGRAM)], tmp_path, **PLAIN)
    assert compiled.returncode == 0, compiled.stderr[-2000:]
    checker = ["valgrind", "-q", "--undef-value-errors=no", "--error-limit=no", "--num-callers=6"]
    done = run([*checker, sys.executable, str(PROGRAM), "wrong"], tmp_path, PYTHONMALLOC="malloc", **PLAIN)
    assert done.returncode == 0, done.stderr[-2000:]
    last = done.stdout.splitlines()[-1]
    assert last == "all"
    found = re.findall(r"== (Invalid \w+ of size \d+)\n.*  at 0x[0-9A-F]+: \?\?\?\n", done.stderr)
    assert found == ["Invalid read of size 4", "Invalid write of size 4"], done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_the_loops_pass_their_tests_with_bounds_checked(tmp_path):
    """NUMBA_BOUNDSCHECK stands above what a loop asks for; loops so compiled need a cache of their own."""
    program = "import test_memory_checker; test_memory_checker.out_of_bounds()"
    assert "IndexError" in run([sys.executable, "-c", program], tmp_path, NUMBA_BOUNDSCHECK="1").stderr
    files = [str(HERE / f"test_{name}.py") for name in LOOPS]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-k", "not python", *files]
    done = run(command, tmp_path, NUMBA_BOUNDSCHECK="1")
    assert done.returncode == 0, done.stdout[-4000:]


def out_of_bounds() -> None:
    """Read behind an array by a loop that asks for no check."""
    import numba as nb
    import numpy as np

    nb.njit(boundscheck=False)(lambda numbers: numbers[numbers.size])(np.zeros(3))
