#!/usr/bin/env bash
# In bfloat16 Adam's second moment stops at half of its value and never falls, and the fused one at a quarter
#
# Version: torch 2.14.1, Adam and AdamW of bfloat16 weights with the usual beta2 of 0.999, on a CPU
# Belief: Moments of bfloat16 weights are rounded, so noisy; the loop, `foreach` and `fused` are the same algorithm.
# Seen: With a gradient of 1 in all steps the second moment is 0.5 from some step on for the loop and foreach, 0.25 for fused, and
#   should be 1. A constant learning rate then has steps that are 1.4 and 2 times too long. When the gradient falls to a hundredth it
#   stays there for ever: after 5,000 steps it should be 0.007, and the steps are 8 times too short. The first moment is right to 2 %.
#   Decay of 1e-4 a step (AdamW: 1e-3 times 0.1) moves no weight in 3,000 steps, where 26 % should go.
# Means: Pure bfloat16 training by Adam has a step that depends on the implementation and on the largest gradient so far, and no
#   decay. Keep float32 weights or moments.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn

KINDS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def moments(dtype, gradients, **kind):
    weight = nn.Parameter(torch.zeros(4, dtype=dtype))
    optimizer = torch.optim.Adam([weight], lr=0.0, **kind)
    for gradient, steps in gradients:
        weight.grad = torch.full_like(weight, gradient)
        for _ in range(steps):
            optimizer.step()
    state = optimizer.state[weight]
    return round(state["exp_avg"][0].item(), 3), round(state["exp_avg_sq"][0].item(), 3)


def decayed(dtype, **kind):
    weight = nn.Parameter(torch.ones(4, dtype=dtype))
    optimizer = torch.optim.AdamW([weight], lr=1e-3, weight_decay=0.1, **kind)
    weight.grad = torch.zeros_like(weight)
    for _ in range(3000):
        optimizer.step()
    return round(weight[0].item(), 2)


seen = {}
for name, kind in KINDS.items():
    for dtype in (torch.float32, torch.bfloat16):
        steady, falling = moments(dtype, [(1.0, 10000)], **kind), moments(dtype, [(1.0, 5000), (0.01, 5000)], **kind)
        seen[name, dtype] = steady[1], falling[1], decayed(dtype, **kind)
        print(f"{name}, {dtype}: moments of a gradient of 1 {steady}, of 1 and then 0.01 {falling}, a weight that decays {seen[name, dtype][2]}")
half, whole = torch.bfloat16, torch.float32
as_seen = all(seen[name, whole] == (1.0, 0.007, 0.74) for name in KINDS)
raise SystemExit(not (as_seen and seen["loop", half] == seen["foreach", half] == (0.5, 0.5, 1.0) and seen["fused", half] == (0.25, 0.25, 1.0)))
EOF
"$folder/venv/bin/python" -W ignore program.py
