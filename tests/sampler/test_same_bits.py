"""Updates are functions of seeds and coefficients: the same bits by the instructions of other processors, and on any threads."""

import os
import subprocess
import sys
from pathlib import Path

import bits_program
import pytest

from neuro_cli.core import noise as addressed

PROGRAM = Path(__file__).parent / "bits_program.py"
OLDEST = {
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_CBWR": "COMPATIBLE",
    "ATEN_CPU_CAPABILITY": "default",
    "OMP_NUM_THREADS": "1",
}
AVX2 = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "MKL_CBWR": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+sse4.2,+avx,+avx2,+fma,+bmi,+bmi2,+lzcnt,+popcnt,+f16c,-avx512f",
}


@pytest.mark.parametrize(
    "instructions",
    [
        OLDEST,
        pytest.param(OLDEST | {"NUMBA_CPU_NAME": "generic"}, marks=pytest.mark.slow),  # compiles all loops again
        pytest.param(AVX2, marks=pytest.mark.slow),
    ],
    ids=["library's oldest", "oldest", "AVX2"],
)
def test_other_instructions_give_the_same_parameters(instructions, monkeypatch):
    monkeypatch.setattr(addressed.tier, "few", 0)
    chosen = bits_program.samplers()
    command = [sys.executable, PROGRAM]
    said = subprocess.run(command, env=os.environ | instructions, capture_output=True, text=True, check=True, timeout=600).stdout
    assert said.splitlines() == [f"{name} {bits_program.moved(sampler, 1)}" for name, sampler in chosen.items()]
