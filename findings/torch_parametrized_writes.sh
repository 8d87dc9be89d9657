#!/usr/bin/env bash
# What is written into a parametrised or pruned weight is lost, by `copy_`, by `.data` and by `nn.init`
#
# Version: torch 2.14.1
# Belief: `layer.weight.copy_(w)` and `nn.init.zeros_(layer.weight)` set the weight of any layer.
# Seen: With a parametrization (any one, as weight norm and orthogonal weights are) each read computes the weight from
#   `parametrizations.weight.original`, and what is written goes into a copy that nobody reads: the layer computes as before, with no word.
#   Of a pruned layer the weight has what was written until the next pass, which sets it again. `layer.weight = w` goes through the inverse
#   of the parametrization, and is refused where it has none.
# Means: A member whose weights are written so is the centre, and a fitness of all members is one number. Write to what
#   `named_parameters` gives.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def own():
    layer = nn.Linear(3, 3, bias=False)
    parametrize.register_parametrization(layer, "weight", Doubled())
    return layer


KINDS = {
    "plain": lambda: nn.Linear(3, 3, bias=False),
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(3, 3, bias=False)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(3, 3, bias=False)),
    "a parametrization of one's own": own,
    "pruned": lambda: prune.l1_unstructured(nn.Linear(3, 3, bias=False), "weight", 1),
}
WAYS = {
    "copy_": lambda layer: layer.weight.copy_(torch.zeros(3, 3)),
    "data": lambda layer: layer.weight.data.zero_(),
    "nn.init": lambda layer: nn.init.zeros_(layer.weight),
}
seen, x = {}, torch.eye(3)
for kind, make in KINDS.items():
    for way, write in WAYS.items():
        torch.manual_seed(0)
        layer = make()
        with torch.no_grad():
            before = layer(x)
            write(layer)
            after = layer(x)
        seen[kind, way] = "set" if not after.any() else "lost" if torch.equal(before, after) else "else"
    print(f"{kind}:", {way: seen[kind, way] for way in WAYS})
layer = own()
try:
    layer.weight = torch.zeros(3, 3)
    refused = False
except Exception as error:
    refused = True
    print("layer.weight = ...:", type(error).__name__)
raise SystemExit(not (refused and all(value == ("set" if kind == "plain" else "lost") for (kind, _), value in seen.items())))
EOF
"$folder/venv/bin/python" -W ignore program.py
