#!/usr/bin/env bash
# e3nn's weights have size 1 at any width, so one sigma is a large step for torch's layers and a small one for e3nn's
#
# Version: e3nn 0.6.0, torch 2.14.1, numpy 2.4.6
# Belief: A fresh layer's weights shrink with its width, as torch's do, so a sigma that suits torch's layers suits e3nn's.
# Seen: e3nn draws weights from N(0, 1) and divides by the width in the forward pass. Noise of sigma 0.05 on 256 channels
#   changes the output of torch.nn.Linear by 1.4 times its size and that of o3.Linear by a twentieth. Its compiled code runs
#   under vmap over weights, with the bits of one by one.
# Means: Sigma, learning rates and weight decay are in other units: multiply sigma by about the root of the width, or give the two
#   kinds of layers factors of their own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet e3nn==0.6.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from e3nn import o3
from torch.func import functional_call, vmap

torch.manual_seed(0)
x, changes = torch.randn(64, 256), {}
for layer in (torch.nn.Linear(256, 256, bias=False), o3.Linear("256x0e", "256x0e")):
    weight = layer.weight.detach()
    members = {"weight": weight + 0.05 * torch.randn(4, *weight.shape)}
    outputs = vmap(lambda one: functional_call(layer, one, (x,)))(members)
    single = torch.stack([functional_call(layer, {"weight": one}, (x,)) for one in members["weight"]])
    change = float((outputs - layer(x)).norm(dim=(1, 2)).mean() / layer(x).norm())
    name = type(layer).__module__.split(".")[0]
    changes[name] = change
    print(f"{name}: weights have size {float(weight.std()):.3f}, noise of 0.05 changes outputs by {change:.2f} of theirs,", end=" ")
    print(f"vmap differs by {float((outputs - single).abs().max()):.1e}")
raise SystemExit(not (changes["torch"] > 1 and changes["e3nn"] < 0.1))
EOF
