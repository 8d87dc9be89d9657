#!/usr/bin/env bash
# In torchao's 8-bit Adam a weight beside one with large gradients moves twenty times as far, in its 8-bit floats 800 times, and one NaN takes 256 weights
#
# Version: torch 2.14.1, torchao 0.18.0, AdamW8bit and AdamWFp8 on a CPU, without compilation
# Belief: Moments in eight bits are AdamW's to a few per cent, since each block of 256 has a scale of its own.
# Seen: Of 8,192 weights each 256th has gradients of 1 and the others of 1e-3. After 20 steps at 1e-3 no weight of AdamW is further
#   than 0.02 from its start; with AdamW8bit one is 0.47 away, and with AdamWFp8 one is 16.7 away, since second moments far below the
#   block's largest are 0 and first ones are not. Where all gradients have one size the three agree to 3 % and 10 %. One NaN in a
#   gradient makes one weight NaN in that step, and the 256 of its block in the next.
# Means: A layer with a few strong inputs (embeddings of frequent words, biases in one tensor with others) trains away from its start,
#   with no word. Compare one step with AdamW's, or clip updates.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6 torchao==0.18.0
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torchao.optim import AdamW8bit, AdamWFp8

SIZE = 8192


def moved(make, largest):
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(SIZE))
    optimizer = make([weight], lr=1e-3, weight_decay=0.0)
    for _ in range(20):
        weight.grad = torch.randn(SIZE) * 1e-3
        if largest:
            weight.grad[::256] = largest
        optimizer.step()
    return weight.detach()


def lost(make):
    weight = nn.Parameter(torch.zeros(SIZE))
    optimizer, counts = make([weight], lr=1e-3, weight_decay=0.0), []
    for bad in (True, False):
        weight.grad = torch.ones(SIZE)
        if bad:
            weight.grad[300] = float("nan")
        optimizer.step()
        counts.append(int(weight.isnan().sum()))
    return counts


seen = {}
for make in (torch.optim.AdamW, AdamW8bit, AdamWFp8):
    alike = (moved(make, None) - moved(torch.optim.AdamW, None)).abs().max().item()
    seen[make.__name__] = moved(make, 1.0).abs().max().item(), alike, lost(make)
    far, alike, counts = seen[make.__name__]
    print(f"{make.__name__}: furthest weight beside large gradients {far:.3g}, off by {alike:.2g} without them, NaN after a NaN {counts}")
plain, eight, floats = seen.values()
as_seen = plain[0] < 0.0201 and eight[0] > 0.2 and floats[0] > 2 and eight[1] < 1e-3 and floats[1] < 3e-3
raise SystemExit(not (as_seen and plain[2] == [1, 1] and eight[2] == floats[2] == [1, 256]))
EOF
TORCHDYNAMO_DISABLE=1 "$folder/venv/bin/python" -W ignore program.py
