#!/usr/bin/env bash
# An exported program trains on with the module it was made from
#
# Version: torch 2.14.1
# Belief: torch.export.export takes a snapshot: a program exported at the best generation keeps those weights.
# Seen: The program's parameters, and tensors that are plain attributes, are the module's own memory. Any change in place, by
#   an optimizer, load_state_dict or a perturbation that is added and taken off again, changes its outputs; and a change of
#   the program's changes the module. A number (self.scale = 2.0) is copied.
# Means: The best program of a search is the last one, and a program evaluated in another thread while members are perturbed
#   in place gives a member's outputs. Export copy.deepcopy(module), or save to a file at once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.factor, self.scale = nn.Linear(3, 2), torch.ones(2), 2.0

    def forward(self, x):
        return self.layer(x) * self.factor * self.scale


torch.manual_seed(0)
net, x, moved = Net(), torch.ones(1, 3), {}
program = torch.export.export(net, (x,)).module()
apart = torch.export.export(copy.deepcopy(net), (x,)).module()
best = program(x).detach().clone()


def outputs_moved():
    change = float((program(x).detach() - best).abs().max())
    best.copy_(program(x).detach())
    return change


optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
net(x).sum().backward()
optimizer.step()
moved["an optimizer's step"] = outputs_moved()
net.load_state_dict({name: number + 1 for name, number in net.state_dict().items()})
moved["load_state_dict"] = outputs_moved()
net.factor.add_(1)
moved["a plain tensor"] = outputs_moved()
net.scale = 5.0
moved["a number"] = outputs_moved()
print("the program's outputs move after a change of the module by:", {name: round(value, 2) for name, value in moved.items()})
with torch.no_grad():
    program.layer.weight.zero_()
back = bool((net.layer.weight == 0).all())
print("zeroed in the program, zero in the module:", back, "| a program of a deep copy:", apart(x).tolist())
raise SystemExit(not (back and moved.pop("a number") == 0 and all(moved.values()) and float(apart(x).abs().sum()) > 0))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
