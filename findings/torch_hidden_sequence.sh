#!/usr/bin/env bash
# Attention of a row that sees nothing is 0, NaN or a mean in torch, by where it is asked and whether gradients are on
#
# Version: torch 2.14.1 on a CPU
# Belief: A row without any visible key has one value, whatever that is, in training and in evaluation.
# Seen: `scaled_dot_product_attention` gives 0 for a boolean mask and one of -inf, and the mean of all values for a mask of the type's smallest
#   number. `nn.MultiheadAttention` with a padding mask that hides a complete sequence gives 0 with gradients and
#   `need_weights=False`, as in a Transformer layer, and NaN under `no_grad` or with weights.
# Means: One empty text in a batch makes a fitness NaN for every member, in a network that trained well by gradients. Leave empty rows out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import math

import torch
from torch.nn.functional import scaled_dot_product_attention as attend

torch.manual_seed(0)
queries, keys, values = (torch.randn(1, 2, 8, 16) for _ in range(3))
visible = torch.ones(8, 8, dtype=torch.bool)
visible[1] = False
added = lambda number: torch.zeros(8, 8).masked_fill(~visible, number)
masks = {"boolean": visible, "-inf": added(-math.inf), "smallest": added(torch.finfo().min)}
rows = {name: attend(queries, keys, values, attn_mask=mask)[0, 0, 1] for name, mask in masks.items()}
kinds = {name: "0" if not row.any() else "mean" if torch.allclose(row, values[0, 0].mean(0), atol=1e-5) else "other" for name, row in rows.items()}
print("scaled dot product, by the mask:", kinds)
layer = torch.nn.MultiheadAttention(32, 2, batch_first=True).eval()
x, hidden = torch.randn(2, 8, 32), torch.tensor([[False] * 8, [True] * 8])
seen = {}
for gradients in (True, False):
    for weights in (True, False):
        with torch.set_grad_enabled(gradients):
            output, _ = layer(x, x, x, key_padding_mask=hidden, need_weights=weights)
        seen[gradients, weights] = bool(output[1].isnan().all()), bool(output[0].isfinite().all())
        print(f"MultiheadAttention, gradients {gradients}, weights {weights}: hidden sequence NaN {seen[gradients, weights][0]}, the other one finite {seen[gradients, weights][1]}")
expected = {key: (key != (True, False), True) for key in seen}
raise SystemExit(not (kinds == {"boolean": "0", "-inf": "0", "smallest": "mean"} and seen == expected))
PROGRAM
