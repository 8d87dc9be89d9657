#!/usr/bin/env bash
# A parameter group that is added during a warm-up has ten times its learning rate at the end
#
# Version: torch 2.14.1
# Belief: Under `LinearLR` every group of the optimizer warms up to its own rate, or a group that is added later is left alone.
# Seen: With `LinearLR(optimizer, 0.1, total_iters=5)` and a rate of 1 the first group ends at 1. One that is added before the first
#   step with a rate of 1 has 2.8, 4.6, 6.4, 8.2 and 10. Each step multiplies the present rate, and only groups that were there had it
#   divided by ten before. LambdaLR, OneCycleLR, CyclicLR and warm restarts raise an error; other schedules scale both alike.
# Means: Layers that are unfrozen, or grown, during a warm-up train with ten times the rate. Make the schedule after the last group.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch.optim.lr_scheduler import LinearLR

first, later = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([first], lr=1.0)
schedule = LinearLR(optimizer, 0.1, total_iters=5)
optimizer.add_param_group({"params": [later], "lr": 1.0})
rates = []
for _ in range(7):
    optimizer.step()
    schedule.step()
    rates.append([round(group["lr"], 6) for group in optimizer.param_groups])
print("rates of the first group:", [a for a, _ in rates])
print("rates of the later group:", [b for _, b in rates])
raise SystemExit([b for _, b in rates] != [2.8, 4.6, 6.4, 8.2, 10.0, 10.0, 10.0] or rates[-1][0] != 1)
EOF
"$folder/venv/bin/python" -W ignore program.py
