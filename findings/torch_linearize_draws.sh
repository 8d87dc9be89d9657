#!/usr/bin/env bash
# `torch.func.linearize` draws dropout again in each use, and each use moves batch norm's statistics
#
# Version: torch 2.14.1
# Belief: `value, product = linearize(f, w)` runs the network once; `product` is a linear function, the derivative of the network that
#   gave `value`.
# Seen: With dropout `product(v)` has another mask than `value` and another one in each call: two calls of one v have two results, and
#   the global generator moves. With batch norm in training mode the count of batches is 2 after `linearize` and one more after each
#   call of `product`. Numbers that f took from elsewhere, and the point itself, are read at the first use of `product` and kept:
#   changed before it they are the new ones, after it the old ones. In evaluation mode `product` has jvp's bits.
# Means: Directional derivatives along several directions are of several networks, and their number decides the running statistics.
#   Use `vjp`, one `jvp` under a seed, or evaluation mode.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torch.func import functional_call, jvp, linearize
from torch.nn import functional as F

torch.manual_seed(0)
ones = torch.ones(1000)
value, product = linearize(lambda x: F.dropout(x, 0.5), ones)
state = torch.get_rng_state()
masks = [value, product(ones), product(ones)]
agree = [round((masks[i] == masks[k]).float().mean().item(), 1) for i, k in ((0, 1), (1, 2))]
moved = not torch.equal(state, torch.get_rng_state())
print("dropout: share of equal places of value and product, and of two products", agree, "generator moved", moved)
net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
weights, x = {name: weight.detach() for name, weight in net.named_parameters()}, torch.randn(8, 4)
_, product = linearize(lambda weights: functional_call(net, weights, (x,)).sum(), weights)
counts = [net[1].num_batches_tracked.item()]
for _ in range(3):
    product(weights)
    counts.append(net[1].num_batches_tracked.item())
print("batches that batch norm counted after linearize, and after each product:", counts)
scale = {"by": torch.tensor(3.0)}
function, w, one = lambda w: w * scale["by"], torch.tensor(2.0), torch.tensor(1.0)
_, product = linearize(function, w)
scale["by"].fill_(5.0)
factors = [product(one).item()]
scale["by"].fill_(7.0)
factors += [product(one).item(), jvp(function, (w,), (one,))[1].item()]
print("a factor of 3 that is 5 at the first use and 7 at the second: linearize", factors[:2], "jvp", factors[2])
as_seen = agree == [0.5, 0.5] and moved and counts == [2, 3, 4, 5]
raise SystemExit(not (as_seen and factors == [5.0, 5.0, 7.0]))
EOF
"$folder/venv/bin/python" -W ignore program.py
