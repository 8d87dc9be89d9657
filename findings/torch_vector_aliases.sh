#!/usr/bin/env bash
# Members set from one vector by vector_to_parameters train each other
#
# Version: torch 2.14.1
# Belief: vector_to_parameters copies a flat vector into a module's parameters.
# Seen: Parameters become views of the vector. `vector += noise` moves a module that was set from it before, and a step of
#   an optimizer moves the vector and every other module that was set from it.
# Means: In a loop `flat + sigma * eps` makes a new vector and all is well; with an update in place the centre is its own
#   member, and the best member that was set aside moves along. Give the function a clone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import copy

import torch
from torch import nn
from torch.nn.utils import vector_to_parameters

centre, member = nn.Linear(3, 1), nn.Linear(3, 1)
vector = torch.zeros(4)
vector_to_parameters(vector, centre.parameters())
vector += 1  # noise in place
moved = centre.weight[0, 0].item()
print(f"weight set to 0, after vector += 1: {moved}")
vector_to_parameters(vector, member.parameters())
optimizer = torch.optim.SGD(member.parameters(), lr=1.0)
member(torch.ones(1, 3)).sum().backward()
optimizer.step()
print(f"after a step of another module that was set from the vector: {centre.weight[0, 0].item()}, the vector {vector.tolist()}")
raise SystemExit((moved, centre.weight[0, 0].item()) != (1.0, 0.0))
EOF
