"""Products have the same bits wherever matrices lie, in every process that imports neuro before its first product."""

import logging
import os
import subprocess
import sys

import pytest
import torch

from neuro_cli.core.kernels import blas
from neuro_cli.core.machine import mkl

# torch comes first, as in a user's own script; views begin at every place of a vector of 16 numbers
PROGRAM = """
import torch, neuro_cli
def moved(x, by):
    room = torch.empty(x.numel() + 16)
    return room[by : by + x.numel()].view(x.shape).copy_(x)
x, weight = torch.randn(12, 27), torch.randn(3, 27)
for by in range(16):
    made = torch.nn.functional.linear(moved(x, by), moved(weight, 16 - by))
    assert torch.equal(made, torch.nn.functional.linear(x, weight)), by
"""
LATE = """
import torch
torch.ones(3, 3) @ torch.ones(3, 3)
import neuro_cli.core.kernels.blas
"""
SAID = "bits of matrix products may vary: import neuro_cli before torch's first product, or set MKL_CBWR=AUTO,STRICT"
needed = pytest.mark.skipif(
    not torch.backends.mkl.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX2",
    reason="products need the mode with MKL and without AVX-512",
)


def ended(program: str) -> str:
    """What a process without the setting wrote to its error output."""
    plain = {name: value for name, value in os.environ.items() if name != mkl.MODE}
    done = subprocess.run([sys.executable, "-c", program], env=plain, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    return done.stderr


@needed
def test_products_of_torch_do_not_depend_on_where_matrices_lie():
    ended(PROGRAM)


@needed
def test_too_late_an_import_is_said():
    assert ended(LATE).count(SAID) == 1


@pytest.mark.parametrize(
    ("vendor", "flags", "before", "after"),
    [
        ("GenuineIntel", "avx2", None, "AUTO,STRICT"),
        ("GenuineIntel", "avx2 avx512f", None, None),
        ("AuthenticAMD", "avx2 avx512f", None, "AUTO,STRICT"),
        ("AuthenticAMD", "avx2", "COMPATIBLE", "COMPATIBLE"),
        (None, None, None, "AUTO,STRICT"),
    ],
)
def test_the_mode_is_set_where_it_is_needed(vendor, flags, before, after, tmp_path, monkeypatch):
    processors = tmp_path / "cpuinfo"
    if vendor is not None:
        processors.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu {flags} sse\nbugs\t\t: none\n")
    monkeypatch.setenv(mkl.MODE, before or "")  # first, so that it is undone
    if before is None:
        del os.environ[mkl.MODE]
    mkl.ask_for_same_bits(processors)
    assert os.environ.get(mkl.MODE) == after


@pytest.mark.parametrize(
    ("vendor", "flags", "lacking"),
    [("GenuineIntel", "avx512f", False), ("AuthenticAMD", "avx2", False), ("AuthenticAMD", "avx512f", True), (None, "", False)],
)
def test_wide_kernels_lack_where_a_processor_of_amd_has_avx512(vendor, flags, lacking, tmp_path):
    processors = tmp_path / "cpuinfo"
    if vendor is not None:
        processors.write_text(f"vendor_id\t: {vendor}\nflags\t\t: fpu {flags} sse\n")
    assert mkl.lacks_wide_kernels(processors) is lacking


def test_nothing_is_said_where_the_mode_is_on(caplog):
    caplog.set_level(logging.WARNING)
    mkl.warn_without_same_bits(blas.LIBRARY)
    assert not caplog.records
