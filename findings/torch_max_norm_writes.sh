#!/usr/bin/env bash
# An embedding with `max_norm` writes into the member that it evaluates, also in evaluation mode and under `functional_call`
#
# Version: torch 2.14.1
# Belief: A forward pass in `eval()` under `no_grad` does not change weights; `functional_call` leaves the weights that it is handed.
# Seen: Rows that are looked up are scaled to the norm in place: in eval mode, in the tensors that are handed to `functional_call`, and
#   in all members of a stacked population under `vmap`. Rows that are not looked up stay long, so what is left depends on the data.
# Means: An update by the members' weights (a mean of the elite, a crossover) uses other weights than were asked for, and a centre that
#   is evaluated between generations moves. Copy before each pass. neuro evaluates copies, and its noise is made from addresses.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torch.func import functional_call, vmap

torch.manual_seed(0)
layer = nn.Embedding(3, 4, max_norm=1.0).eval()
rows = torch.tensor([0])
nn.init.constant_(layer.weight, 2.0)
with torch.no_grad():
    layer(rows)
    alone = layer.weight.norm(dim=1).tolist()
    member = torch.full((3, 4), 2.0)
    functional_call(layer, {"weight": member}, (rows,))
    population = torch.full((2, 3, 4), 2.0)
    vmap(lambda weight: functional_call(layer, {"weight": weight}, (rows,)))(population)
print("norms of rows after one was looked up, 4 before: module", alone)
print("handed to functional_call", member.norm(dim=1).tolist(), "under vmap", population.norm(dim=2).tolist())
right = torch.tensor([1.0, 4.0, 4.0])
as_seen = torch.allclose(torch.tensor(alone), right, atol=1e-5) and torch.allclose(member.norm(dim=1), right, atol=1e-5)
raise SystemExit(not (as_seen and torch.allclose(population.norm(dim=2), right.expand(2, 3), atol=1e-5)))
EOF
"$folder/venv/bin/python" -W ignore program.py
