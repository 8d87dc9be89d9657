"""Words for the processor."""

import re

import pytest
import torch
import torch.nn.functional as F

from neuro_cli.core.machine.processor import cores, lacks_bfloat16, processor, rounds_float32, supported
from neuro_cli.scoring.base import ROUNDED


def test_the_words_name_the_instructions_that_torch_finds():
    assert re.fullmatch(r"\d+ cores, \w+( bf16)?( VNNI)?( AMX)?", cores())
    assert torch.backends.cpu.get_cpu_capability() in cores()
    assert processor()


@pytest.mark.parametrize("there", [True, False])
def test_amx_is_named_where_it_is(there, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: there)
    assert ("AMX" in cores()) is there


def test_what_a_version_of_torch_does_not_name_is_not_there():
    assert supported("no_such") is False


@pytest.mark.parametrize(
    ("machine", "named", "capability", "lacks"),
    [("x86_64", False, "AVX2", True), ("x86_64", True, "DEFAULT", False), ("x86_64", False, "AVX512", False),
     ("AMD64", False, "DEFAULT", True), ("aarch64", False, "DEFAULT", False)],
)  # fmt: skip
def test_products_in_bfloat16_need_avx512_on_x86(machine, named, capability, lacks, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: named)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert lacks_bfloat16() is lacks


@pytest.fixture
def medium():
    """The precision that Lightning suggests, for GPUs."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


def test_rounded_products_are_seen_where_the_processor_has_amx(medium):
    assert rounds_float32() is supported("amx_tile")


def test_rounded_convolutions_are_seen(monkeypatch):
    assert not rounds_float32()
    plain = F.conv2d
    monkeypatch.setattr(F, "conv2d", lambda x, weight: plain(x.bfloat16().float(), weight.bfloat16().float()))
    assert rounds_float32()


def test_autocast_of_the_caller_is_no_rounding_of_float32():
    with torch.autocast("cpu", torch.bfloat16):
        assert not rounds_float32()


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="an older torch has no such setting")
def test_the_named_remedy_gives_products_and_convolutions_back():
    """Not products alone: set_float32_matmul_precision leaves convolutions as they are."""
    convolutions = torch.backends.mkldnn.conv
    try:
        torch.backends.fp32_precision = "bf16"
        for remedy in ("torch.set_float32_matmul_precision('highest')", "torch.backends.mkldnn.conv.fp32_precision = 'ieee'"):
            assert remedy in ROUNDED
            exec(remedy)
        assert not rounds_float32()
    finally:
        torch.backends.fp32_precision = convolutions.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
