"""A network of 1.1 billion numbers trains within the memory of its weights and little more."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import well

from neuro_cli.core.machine.memory import free_memory

PEAK, FREE = 6e9, 8e9  # bytes


@pytest.mark.slow
def test_a_billion_numbers_of_bfloat16_train_within_six_gigabytes():
    if (free_memory() or 0) < FREE:
        pytest.skip(f"it needs {FREE / 1e9:.0f} GB of free memory")
    program = Path(__file__).with_name("large_program.py")
    done = well(
        subprocess.run([sys.executable, program, "16", "8192"], capture_output=True, text=True, timeout=1800, check=False)
    )
    assert int(done.stdout) < PEAK
