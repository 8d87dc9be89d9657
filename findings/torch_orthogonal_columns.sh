#!/usr/bin/env bash
# Small noise on an orthogonal layer that is not square sets columns of its weight to zero
#
# Version: torch 2.14.1
# Belief: Noise on the numbers behind `parametrizations.orthogonal` turns the weight a little, by about the noise.
# Seen: For a weight of 6 x 3 the default map is Householder's. It casts the diagonal to integers, where 1 and -1 are signs: 0.9999 is 0. Of
#   1,000 members with noise of 1e-3, seven of eight have columns of zeros, half of all columns. A step of any size does it. The gradient of the
#   diagonal is zero, so back-propagation never meets it. With `matrix_exp` and `cayley` no column is lost.
# Means: Evolution of all parameters compares networks with half of a layer cut off, at any sigma. Name another map, or leave the
#   diagonal out of the noise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

MEMBERS = 1000
seen = {}
for kind in (None, "matrix_exp", "cayley"):
    torch.manual_seed(0)
    layer = orthogonal(nn.Linear(3, 6, bias=False), orthogonal_map=kind)
    numbers = layer.parametrizations.weight.original
    centre, lost = numbers.detach().clone(), []
    for _ in range(MEMBERS):
        with torch.no_grad():
            numbers.copy_(centre + 1e-3 * torch.randn_like(centre))
            lost.append(int((layer.weight.norm(dim=0) == 0).sum()))
    with torch.no_grad():
        numbers.copy_(centre)
    layer.weight.square().sum().backward()
    seen[kind] = sum(number > 0 for number in lost) / MEMBERS, sum(lost) / MEMBERS / 3
    print(f"map {kind}: members with a column of zeros {seen[kind][0]:.3f}, columns that are zero {seen[kind][1]:.3f}")
    if kind is None:
        layer.zero_grad()
        (layer.weight * torch.arange(18.0).reshape(6, 3)).sum().backward()
        diagonal = numbers.grad.diagonal().abs().max().item()
        print(f"largest gradient of the diagonal {diagonal}, of all {numbers.grad.abs().max().item():.3f}")
        silent = diagonal == 0
raise SystemExit(not (0.8 < seen[None][0] < 0.95 and 0.4 < seen[None][1] < 0.6 and silent and seen["cayley"][0] == seen["matrix_exp"][0] == 0))
EOF
