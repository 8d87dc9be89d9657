#!/usr/bin/env bash
# The gradient of `torch.func.vjp` is that of weights that were changed in between, where `backward` refuses
#
# Version: torch 2.14.1
# Belief: The pullback that `vjp` returns is the derivative at the point where the function ran; what was changed in place since then
#   is an error, as in autograd.
# Seen: After w.fill_(10) the pullback of w ** 2 at w = 1, 2 gives 20, 20, with no word, and that of a network whose last layer was
#   multiplied by 3 gives the first layer a gradient three times as large; `backward` raises an error in both.
# Means: A pullback that is used after an optimizer's step, or after noise was put on the weights and taken off with rounding, is a
#   gradient of neither network. Take the gradient before weights change, or hand `vjp` clones.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torch.func import functional_call, vjp

w = torch.tensor([1.0, 2.0])
_, pullback = vjp(lambda w: w**2, w)
before = pullback(torch.ones(2))[0].tolist()
w.fill_(10.0)
after = pullback(torch.ones(2))[0].tolist()
print("w ** 2 at 1 and 2: pullback", before, "after w is 10:", after)
v = torch.tensor([1.0, 2.0], requires_grad=True)
squares = v**2
with torch.no_grad():
    v.fill_(10.0)
try:
    squares.sum().backward()
    refused = False
except RuntimeError as error:
    refused = "modified by an inplace operation" in str(error)
print("backward refuses:", refused)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
weights = {name: weight.detach().clone() for name, weight in net.named_parameters()}
_, pullback = vjp(lambda weights: functional_call(net, weights, (torch.ones(2, 3),)).sum(), weights)
first = pullback(torch.tensor(1.0))[0]["0.weight"].clone()
weights["2.weight"].mul_(3)
factor = (pullback(torch.tensor(1.0))[0]["0.weight"] / first).mean().item()
print("network: gradient of the first layer after the last one was changed, as a multiple:", round(factor, 3))
as_seen = before == [2.0, 4.0] and after == [20.0, 20.0] and refused
raise SystemExit(not (as_seen and abs(factor - 3) < 1e-3))
EOF
"$folder/venv/bin/python" -W ignore program.py
