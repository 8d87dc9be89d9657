#!/usr/bin/env bash
# Within parametrize.cached all members have the first one's weights
#
# Version: torch 2.14.1
# Belief: `parametrize.cached()` saves the repeated computation of a parametrised weight within one forward pass.
# Seen: The weight is found again by module and name: members set by `functional_call` with other originals, and originals changed
#   in place, all give the first one's output until the block ends; a deep copy made within it too.
# Means: A loop over members in one block (the place where it would save most) evaluates one network, so that all fitnesses are
#   equal. Enter the block for each member.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import copy

import torch
import torch.nn.utils.parametrize as parametrize
from torch import nn
from torch.func import functional_call


class Squashed(nn.Module):
    def forward(self, weight):
        return weight.tanh()


torch.set_grad_enabled(False)
net, x, name = nn.Linear(3, 1, bias=False), torch.ones(1, 3), "parametrizations.weight.original"
parametrize.register_parametrization(net, "weight", Squashed())
members = [torch.full((1, 3), value) for value in (0.1, 0.2, 0.3)]
by_call = lambda: [round(functional_call(net, {name: one}, (x,)).item(), 2) for one in members]


def in_place():
    outputs = []
    for one in members:
        net.parametrizations.weight.original.copy_(one)
        outputs.append(round(net(x).item(), 2))
    return outputs


seen = {"plain": (by_call(), in_place())}
with parametrize.cached():
    seen["cached"] = by_call(), in_place()
    other = copy.deepcopy(net)
    other.parametrizations.weight.original.fill_(5)
    copied = round(other(x).item(), 2)
print("outputs of three members, by functional_call and in place:", seen, "| a copy with weights of 5:", copied)
raise SystemExit(seen != {"plain": ([0.3, 0.59, 0.87],) * 2, "cached": ([0.3] * 3,) * 2} or copied != 0.3)
EOF
