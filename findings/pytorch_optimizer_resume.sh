#!/usr/bin/env bash
# MADGRAD and StableSPAM resumed from their state_dict take other steps
#
# Version: pytorch-optimizer 4.1.0, torch 2.14.1
# Belief: load_state_dict(state_dict()) and the weights are all that a resumed optimizer needs, as for every class of
#   torch.optim.
# Seen: After five steps, state and weights go to a new optimizer, and three more steps of both differ: by 0.08 with MADGRAD
#   and 0.04 with StableSPAM at a rate of 0.1, which leave a part of their state out of the dict or count it anew. With
#   AdamP, Lion and Lamb the bits are the same.
# Means: A run that is stopped and resumed is another run, and of ranks that each resume none says so. Try both ways on a
#   few numbers first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pytorch-optimizer==4.1.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import copy

import torch
from pytorch_optimizer import load_optimizer


def steps(optimizer, parameter, start, stop):
    for time in range(start, stop):
        parameter.grad = torch.randn(8, 8, generator=torch.Generator().manual_seed(time)) + parameter.detach()
        optimizer.step()


apart = {}
for name in ("madgrad", "stablespam", "adamp", "lion", "lamb"):
    kept = torch.nn.Parameter(torch.ones(8, 8))
    first = load_optimizer(name)([kept], lr=0.1)
    steps(first, kept, 0, 5)
    again = torch.nn.Parameter(kept.detach().clone())
    second = load_optimizer(name)([again], lr=0.1)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    steps(first, kept, 5, 8)
    steps(second, again, 5, 8)
    apart[name] = float((kept - again).detach().abs().max())
    print(f"{name}: {apart[name]:.3g} apart after three steps")
raise SystemExit(not (apart["madgrad"] > 0 and apart["stablespam"] > 0 and apart["adamp"] == apart["lion"] == apart["lamb"] == 0))
EOF
