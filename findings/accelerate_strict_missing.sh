#!/usr/bin/env bash
# With `strict=True` accelerate says nothing of weights that are missing from a checkpoint
#
# Version: accelerate 1.15.0, safetensors 0.8.0, torch 2.14.1 (CPU)
# Belief: `load_checkpoint_in_model(model, folder, strict=True)` refuses a checkpoint that lacks weights, as torch's `load_state_dict` does.
# Seen: Of one file that lacks a weight, and of shards whose index lacks a weight or a whole shard, it returns without a word, with a `device_map`
#   and without, and the model keeps its fresh weights and statistics there. A name that the model lacks is refused. torch's `load_state_dict` of
#   the same names raises.
# Means: A run that starts from a half-copied checkpoint is a run from scratch in some layers. Compare the names in the files with `state_dict()`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet accelerate==1.15.0 safetensors==0.8.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import json
import logging
import pathlib

import torch
from accelerate import load_checkpoint_in_model
from safetensors.torch import save_file

logging.disable(logging.WARNING)


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


saved = network(0).state_dict()
saved["1.running_mean"] += 5
saved["head.weight"] = saved["2.weight"].clone()


def write(folder, names, sharded):
    folder.mkdir()
    places = {name: f"model-0000{1 + (name > '1.c' and sharded)}-of-00002.safetensors" for name in names}
    for file in sorted(set(places.values())):
        save_file({name: saved[name].clone() for name in names if places[name] == file}, folder / file, {"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def load(read):
    model = network(1)
    try:
        read(model)
    except (RuntimeError, AttributeError):
        return "refused"
    return [name for name, value in model.state_dict().items() if not torch.equal(value, saved[name])]


names = [name for name in saved if name != "head.weight"]
lacking = [name for name in names if name != "2.weight"]
cases = {"complete": names, "without a weight": lacking, "without a shard": [n for n in names if n < "1.c"], "renamed": [*lacking, "head.weight"]}
seen = {}
for case, kept in cases.items():
    by_torch = load(lambda model: model.load_state_dict({name: saved[name] for name in kept}))
    for sharded in (False, True):
        folder = pathlib.Path(f"{case}-{sharded}")
        write(folder, kept, sharded)
        maps = ({}, {"device_map": {"": "cpu"}})
        by_accelerate = [load(lambda model: load_checkpoint_in_model(model, folder, strict=True, **options)) for options in maps]
        seen[case, sharded] = [by_torch, *by_accelerate]
        print(f"{case}, {'shards' if sharded else 'one file'} - not loaded by torch {by_torch}, accelerate {by_accelerate[0]}, with a device map {by_accelerate[1]}")
holds = all(seen["complete", kind] == [[], [], []] and seen["renamed", kind] == ["refused"] * 3 for kind in (False, True))
holds &= all(seen["without a weight", kind] == ["refused", ["2.weight"], ["2.weight"]] for kind in (False, True))
raise SystemExit(not (holds and len(seen["without a shard", True][1]) > 2 and seen["without a shard", True][0] == "refused"))
PROGRAM
