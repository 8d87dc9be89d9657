"""The Triton kernels against their definitions: in Triton's interpreter everywhere, compiled where there is a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from neuro_cli.core.kernels import gpu

PROGRAM = Path(__file__).with_name("triton_program.py")
FAMILIES = {"words", "normals", "combine", "flip", "add_flipped", "gather", "add_scattered", "add_outer"}
FAMILIES |= {"projected", "filtered", "placed_sum", "weighted_signs", "count_places", "layer", "spread", "pooled"}
DEVICES = [
    pytest.param("cpu", id="interpreter", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="compiled for this GPU")),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")),
]


@pytest.mark.parametrize("cases", ["few", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("device", DEVICES)
def test_every_kernel_gives_what_its_definition_gives(device, cases):
    pytest.importorskip("triton", reason="no Triton here: it comes with torch where torch has CUDA")
    # a process of its own: Triton decides once, while it is imported, whether it interprets
    environment = os.environ | ({"TRITON_INTERPRET": "1"} if device == "cpu" else {})
    done = subprocess.run(
        [sys.executable, str(PROGRAM), device, cases], capture_output=True, text=True, env=environment, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    differences = json.loads(done.stdout)
    assert {name.split()[0] for name in differences} == FAMILIES
    exact = ("words", "normals", "flip", "gather", "weighted_signs", "pooled")
    wrong = {name: value for name, value in differences.items() if value > (0 if name.split()[0] in exact else 2e-5)}
    assert not wrong


def test_a_device_that_is_no_gpu_has_no_kernels():
    assert gpu.noise_kernels("cpu") is None
    assert gpu.noise_kernels("meta") is None
    assert gpu.row_kernels(torch.zeros(2)) is None


def test_kernels_that_fail_are_named_in_the_log_and_not_used(monkeypatch, caplog):
    def broken(*where, law):
        raise RuntimeError("no compiler")

    pytest.importorskip("triton")
    from neuro_cli.core.kernels import triton_noise

    monkeypatch.setattr(triton_noise, "draw", broken)
    monkeypatch.setattr(gpu.torch, "arange", lambda count, device: torch.zeros(count, dtype=torch.int64))
    gpu.noise_kernels.cache_clear()
    try:
        assert gpu.noise_kernels("cuda") is None
    finally:
        gpu.noise_kernels.cache_clear()
    assert "Triton kernels do not work here (no compiler): torch operations are used, slower" in caplog.text
