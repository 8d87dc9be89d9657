#!/usr/bin/env bash
# In a dynamically quantised network one diverging member silences all others of its batch
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: A linear layer treats the rows of a batch one by one; dynamic quantisation finds a scale for each input.
# Seen: The scale is that of the largest number of the batch. A row has other outputs in a batch of 1, 16 and 64, by 1 % of the
#   largest; beside one row that is 1,000 times as large all others come out as the bias.
# Means: With many members in one pass a member's score depends on the others, and one that explodes gives all the same
#   fitness. Score members one by one, or quantise with fixed scales.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torch import nn

torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(64, 32))
quantised = torch.ao.quantization.quantize_dynamic(plain, {nn.Linear}, dtype=torch.qint8)
x = torch.randn(64, 64)
with torch.no_grad():
    full = quantised(x)
    moved = {size: float((quantised(x[:size]) - full[:size]).abs().max() / full.abs().max()) for size in (1, 16)}
    x[0] *= 1000
    silent = torch.equal(quantised(x)[1:], plain[0].bias.expand(63, -1))
print(f"rows in smaller batches differ by {moved}; beside a large row all others are the bias: {silent}")
raise SystemExit(not (silent and all(0.002 < share < 0.05 for share in moved.values())))
PROGRAM
