#!/usr/bin/env bash
# One of 512 uniform numbers in bfloat16 is 0 in torch, where it should be near 1
#
# Version: torch 2.14.1, on a CPU
# Belief: Uniform numbers in half precision are those of float32 with fewer digits.
# Seen: What rounds to 1 becomes 0: one of 512 in bfloat16, of 4,096 in float16. So `rand_like(x) < 0.001` is true in 0.29 % of a
#   bfloat16 x, and in 0.12 % of a float16 one; `-log(rand)` is infinite as often. `bernoulli`, dropout and `exponential_` are right.
# Means: A mask that lets a thousandth of the weights change has three times as many, and noise made from such numbers has infinite entries:
#   a member of a million weights has 2,000. Draw in float32 and cast after.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch

seen = {}
for kind in (torch.float32, torch.float16, torch.bfloat16):
    torch.manual_seed(0)
    weights = torch.empty(1_000_000, dtype=kind)
    uniform = torch.rand_like(weights)
    zeros, mask = float((uniform == 0).double().mean()), float((uniform < 0.001).double().mean())
    infinite = float((-uniform.log()).isinf().double().mean())
    right = float(torch.empty_like(weights).bernoulli_(0.001).double().mean())
    seen[kind] = zeros, mask, infinite
    print(f"{kind}: zeros {zeros:.5f}, below 0.001 {mask:.5f}, -log infinite {infinite:.5f}, bernoulli_(0.001) {right:.5f}")
near = lambda value, wanted: abs(value - wanted) < 0.15 * wanted
brain, half = seen[torch.bfloat16], seen[torch.float16]
raise SystemExit(not (near(brain[0], 1 / 512) and near(half[0], 1 / 4096) and brain[1] > 0.0025 and brain[2] == brain[0] and seen[torch.float32][0] < 1e-5))
EOF
