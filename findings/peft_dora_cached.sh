#!/usr/bin/env bash
# Within peft's cache for DoRA members have the norms of the first one, so that they are networks that nobody can merge
#
# Version: peft 0.21.2, transformers 5.24.0, torch 2.14.1
# Belief: `DoraCaching` makes inference faster; what is computed stays, as it is switched off in training mode.
# Seen: In `eval()` the norms of the rows are those of the first pass, while the product of A and B is the current one: after noise on the adapter
#   outputs are neither the old nor the new ones, and off by more than a third of what the noise moved. So are those of a deep copy.
#   `train()` and `eval()`, one after the other, clear the cache. The merged network is the one without the cache.
# Means: Fitness is that of other networks than what is saved. Leave the cache off where weights change in evaluation mode, or call `train()` and
#   `eval()` after each change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 transformers==5.24.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import copy

import torch
from peft import LoraConfig, get_peft_model
from peft.helpers import DoraCaching
from torch import nn

torch.manual_seed(0)
model = get_peft_model(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)), LoraConfig(r=4, use_dora=True, target_modules=["0"])).eval()
inputs = torch.randn(50, 16)


def outputs(network, cached=False):
    with torch.no_grad(), DoraCaching(enabled=cached):
        return network(inputs)


def moved(network):
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=noise))
    return network


with DoraCaching(), torch.no_grad():
    first = model(inputs)
    twin = copy.deepcopy(model)
    member, copied = moved(model)(inputs), moved(twin)(inputs)
    model.train()
    cleared = model.eval()(inputs)
right = outputs(model)
merged = outputs(copy.deepcopy(model).merge_and_unload())
size = (right - first).norm()
seen = {"cached": member, "a deep copy, cached": copied, "after train() and eval()": cleared, "merged": merged}
off = {name: float((value - right).norm() / size) for name, value in seen.items()}
for name, value in off.items():
    print(f"{name}: off by {value:.4f} of what the noise moved")
raise SystemExit(not (off["cached"] > 0.2 and off["a deep copy, cached"] > 0.2 and off["after train() and eval()"] < 1e-5 and off["merged"] < 1e-5))
PROGRAM
