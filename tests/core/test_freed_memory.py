"""Freed memory stays with the process: the next tensor of the same size meets pages that it already has."""

import subprocess
import sys

PROGRAM = """
import resource, torch
from neuro_cli.core.machine.memory import keep_freed_memory
keep_freed_memory()
def faults(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(count)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = faults(10_000_000)
print(first, min(faults(9_000_000) for _ in range(5)))
"""


def test_a_second_tensor_meets_no_fresh_pages():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    first, again = map(int, done.stdout.split())
    assert again < first / 4
