#!/usr/bin/env bash
# A model that is saved in shards over an older one is the older one when it is loaded
#
# Version: transformers 5.24.0, torch 2.14.1
# Belief: `save_pretrained(folder)` makes the folder hold this model, whatever was in it.
# Seen: Saved with a smaller `max_shard_size` the new shards and their index lie beside the old
#   `model.safetensors`, and `from_pretrained` reads the old file, with no word. The other way round, from shards to one file, the new one is
#   read. With a `variant` the one that is named is read, and without it the old one.
# Means: A folder that is written at each step has the weights of a step long ago. Empty it first, or use one `max_shard_size` for ever.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import os
import tempfile

import torch
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

transformers.utils.logging.set_verbosity_warning()


def model(value):
    made = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(value)
    return made


def read(first, second, **options):
    """Value of the weights that are loaded after weights of 1 and then of 2 were saved into one folder."""
    with tempfile.TemporaryDirectory() as folder:
        model(1.0).save_pretrained(folder, **first)
        model(2.0).save_pretrained(folder, **second)
        files = sorted(name for name in os.listdir(folder) if "safetensors" in name)
        loaded = AutoModelForCausalLM.from_pretrained(folder, **options)
        return float(next(loaded.parameters()).flatten()[0]), files


CASES = {
    "one file, then one file": ({}, {}),
    "one file, then shards": ({}, {"max_shard_size": "30KB"}),
    "shards, then one file": ({"max_shard_size": "30KB"}, {}),
    "shards, then smaller ones": ({"max_shard_size": "60KB"}, {"max_shard_size": "30KB"}),
    "one file, then a variant": ({}, {"variant": "new"}),
}
seen = {}
for name, (first, second) in CASES.items():
    seen[name], files = read(first, second)
    print(f"{name}: weights of save {seen[name]:.0f} are loaded; {len(files)} files, with {files[0]}")
named, _ = read({}, {"variant": "new"}, variant="new")
print(f"one file, then a variant that is named: weights of save {named:.0f}")
old = seen.pop("one file, then shards"), seen.pop("one file, then a variant")
raise SystemExit(not (old == (1, 1) and set(seen.values()) == {2.0} and named == 2))
PROGRAM
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py 2>/dev/null
