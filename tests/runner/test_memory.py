"""A generation holds the noise of the members in flight, never that of the population."""

import subprocess
import sys
from pathlib import Path

import pytest

VECTOR = 4 * 3_274_634  # bytes of one member of MNIST_3M


def peak(population: int) -> int:
    program = Path(__file__).with_name("memory_program.py")
    done = subprocess.run([sys.executable, program, str(population)], capture_output=True, text=True, check=True, timeout=300)
    return int(done.stdout)


@pytest.mark.slow  # two processes with a large network; by default test_noise_cost.py counts what a generation draws
@pytest.mark.parametrize("population", [100, 1000])
def test_many_members_of_mnist_3m_take_no_more_memory_than_ten(population):
    assert peak(population) < peak(10) + 3 * VECTOR  # a population of noise would be 100 or 1,000 of them
