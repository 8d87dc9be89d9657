#!/usr/bin/env bash
# An average of bfloat16 weights with a decay of 0.999 stays where it began
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: `AveragedModel` with `get_ema_multi_avg_fn(0.999)` follows the weights, and has arrived after 10,000 updates.
# Seen: bfloat16 weights of 1 that become 1.1, 1.5 or 2: after 10,000 updates the average is 1, to the last bit. Where they
#   become 10 and 100 it stops at 2.2 and 32. Averages of float32 weights are there to five digits. The average of the average
#   is of the weights' type, as the model is a deep copy.
# Means: A network that is trained in bfloat16 is evaluated and saved by its initial weights, and an average that does not
#   change looks stable. Average in float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

seen = {}
for kind in (torch.bfloat16, torch.float32):
    for value in (1.1, 1.5, 2.0, 10.0, 100.0):
        module = nn.Linear(4, 4, dtype=kind)
        nn.init.ones_(module.weight)
        average = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.999))
        average.update_parameters(module)
        nn.init.constant_(module.weight, value)
        for _ in range(10_000):
            average.update_parameters(module)
        seen[kind, value] = round(float(average.module.weight[0, 0]), 2)
        print(kind, "weights from 1 to", value, "average", seen[kind, value])
half, full = ([seen[kind, value] for value in (1.1, 1.5, 2.0, 10.0, 100.0)] for kind in (torch.bfloat16, torch.float32))
raise SystemExit(half[:3] != [1.0] * 3 or not (half[3] < 3 and half[4] < 40) or full != [1.1, 1.5, 2.0, 10.0, 100.0])
EOF
