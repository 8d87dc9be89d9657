#!/usr/bin/env bash
# A ChainedScheduler is not the product of its schedules where one of them is a LambdaLR or a warm restart
#
# Version: torch 2.14.1
# Belief: `ChainedScheduler([a, b])` multiplies what a and b do, in either order: a warm-up by LambdaLR and a decay by ExponentialLR.
# Seen: LambdaLR, CosineAnnealingWarmRestarts and CyclicLR compute the rate from the first one and write over what the others did.
#   [ExponentialLR(0.9), LambdaLR] is the LambdaLR alone, and [LambdaLR, ExponentialLR(0.9)] is 0.9 times it in each step: after twelve
#   steps the rate is 0.1 and 0.09, where the product is 0.028. With ExponentialLR and CosineAnnealingLR, LinearLR or PolynomialLR,
#   which go by the rate before, the chain is the product.
# Means: A decay that was written down never happens. Put the factor into the lambda, and print the rates.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
)

SECONDS = {
    "warm-up by LambdaLR": lambda optimizer: LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4)),
    "warm restarts": lambda optimizer: CosineAnnealingWarmRestarts(optimizer, 24),
    "cosine": lambda optimizer: CosineAnnealingLR(optimizer, 24),
    "warm-up by LinearLR": lambda optimizer: LinearLR(optimizer, 0.25, 1.0, 3),
}


def rates(*makers):
    weight = nn.Parameter(torch.ones(1))
    optimizer = SGD([weight], lr=0.1)
    schedule = ChainedScheduler([make(optimizer) for make in makers])
    for _ in range(12):
        optimizer.step()
        schedule.step()
    return round(optimizer.param_groups[0]["lr"], 4)


decay = lambda optimizer: ExponentialLR(optimizer, 0.9)  # noqa: E731
seen = {}
for name, make in SECONDS.items():
    product = round(rates(make) * 0.9**12, 4)
    seen[name] = rates(decay, make), rates(make, decay), product, rates(make)
    print(f"decay of 0.9 and {name}, rate after 12 steps: {seen[name][0]}, in the other order {seen[name][1]}, the product {product}, without decay {seen[name][3]}")
lost = {name for name, (one, other, product, alone) in seen.items() if one == alone and abs(other - 0.9 * alone) < 2e-4 and one > 3 * product}
right = {name for name, (one, other, product, _) in seen.items() if abs(one - product) < 2e-4 and abs(other - product) < 2e-4}
raise SystemExit(not (lost == {"warm-up by LambdaLR", "warm restarts"} and right == {"cosine", "warm-up by LinearLR"}))
EOF
"$folder/venv/bin/python" -W ignore program.py
