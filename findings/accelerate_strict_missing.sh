#!/usr/bin/env bash
# With `strict=True` accelerate says nothing of weights that are missing from a checkpoint
#
# Version: accelerate 1.15.0, safetensors 0.8.0, torch 2.14.1 (CPU)
# Belief: `load_checkpoint_in_model(model, folder, strict=True)` refuses a checkpoint that lacks weights, as torch's `load_state_dict` does.
# Seen: Of a file, or of shards with their index, that lack a weight or most of them, it returns without a word, with a `device_map`
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


def load(read):
    model = network(1)
    try:
        read(model)
    except (RuntimeError, AttributeError):
        return "refused"
    return [name for name, value in model.state_dict().items() if not torch.equal(value, saved[name])]


saved = network(0).state_dict() | {"1.running_mean": torch.full((4,), 5.0)}
lacking = {name: value for name, value in saved.items() if name != "2.weight"}
renamed = lacking | {"head.weight": saved["2.weight"]}
shard = {name: value for name, value in saved.items() if name.startswith("0.")}
cases, seen = {"complete": saved, "without a weight": lacking, "without a shard": shard, "renamed": renamed}, {}
for case, kept in cases.items():
    seen[case] = [load(lambda model: model.load_state_dict(kept))]
    for file in ("model.safetensors", "model-00001-of-00002.safetensors"):
        folder = pathlib.Path(f"{case} {file}")
        folder.mkdir()
        save_file(kept, folder / file, {"format": "pt"})
        if "-of-" in file:
            (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(kept, file)}))
        for options in ({}, {"device_map": {"": "cpu"}}):
            seen[case].append(load(lambda model: load_checkpoint_in_model(model, folder, strict=True, **options)))
    print(f"{case}: not loaded by torch {seen[case][0]}, by accelerate from one file and from shards", *seen[case][1:])
holds = seen["complete"] == [[]] * 5 and seen["renamed"] == ["refused"] * 5 and seen["without a weight"] == ["refused"] + [["2.weight"]] * 4
raise SystemExit(not (holds and seen["without a shard"][0] == "refused" and all(len(case) > 2 for case in seen["without a shard"][1:])))
PROGRAM
