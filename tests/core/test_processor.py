"""Words for the processor."""

import re

import pytest
import torch

from neuro_cli.core.machine.processor import cores, processor, supported


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
