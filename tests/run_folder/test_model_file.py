"""model.safetensors: written without a copy of its tensors, as any other file."""

import json
import os

import torch
from safetensors import safe_open
from safetensors.torch import load
from torch import nn

from neuro_cli.run_folder.checkpoint import plain_tensors, serialised
from neuro_cli.run_folder.model_file import model_bytes, write_model


def test_the_file_has_the_bytes_and_the_mode_of_any_other(tmp_path):
    module, file, other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), tmp_path / "model.safetensors", tmp_path / "other"
    module[1].weight = module[0].weight  # tied, which safetensors refuses
    module[0].register_buffer("größe", torch.zeros(2, dtype=torch.int8))
    link = tmp_path / f"model.safetensors.{os.getpid()}.tmp"
    link.symlink_to(other)  # nothing is written through it
    facts = {"generation": 3, "task": 'a "name" \\ \x07 \x7f \n ü'}
    write_model(file, module, facts)
    assert {model_bytes(module, facts) for _ in range(16)} == {file.read_bytes()}  # safetensors' own order is by chance
    made, wanted = load(file.read_bytes()), module.state_dict()
    assert json.loads(safe_open(file, "pt").metadata()["neuro"]) == facts
    assert made.keys() == wanted.keys()
    assert all(torch.equal(wanted[name], made[name]) for name in wanted)
    assert not other.exists()
    assert sorted(os.listdir(tmp_path)) == ["model.safetensors"]
    other.write_text("")
    assert file.stat().st_mode == other.stat().st_mode


def test_parts_of_one_memory_are_copied_only_where_they_overlap():
    """As parameters that are mapped from a file, or views of a flat vector."""
    flat = torch.arange(12.0)
    given = {"a": flat[:4], "b": flat[4:8].view(2, 2), "tied": flat[:4], "part": flat[7:10], "end": flat[10:], "none": flat[:0]}
    plain = plain_tensors(given)
    assert [name for name in given if plain[name].data_ptr() != given[name].data_ptr()] == ["tied", "part"]
    made = load(serialised(given))
    assert all(torch.equal(made[name], given[name]) for name in given)
