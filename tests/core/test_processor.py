"""Words for the processor."""

import re

import pytest
import torch

from neuro_cli.core.machine.processor import cores, processor


def test_the_words_name_the_instructions_that_torch_finds():
    assert re.fullmatch(r"\d+ cores, \w+( bf16)?( VNNI)?( AMX)?", cores())
    assert torch.backends.cpu.get_cpu_capability() in cores()
    assert processor()


@pytest.mark.parametrize("supported", [True, False])
def test_amx_is_named_where_it_is(supported, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: supported)
    assert ("AMX" in cores()) is supported
