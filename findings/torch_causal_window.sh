#!/usr/bin/env bash
# A causal mask with a window loses its window by `is_causal=True` in training, and keeps it in evaluation
#
# Version: torch 2.14.1
# Belief: A mask that is given is obeyed, and `is_causal=True` says besides that no later place is seen.
# Seen: The flag says that the mask is the causal one, and the mask is then dropped: in a TransformerEncoder with a window of two places outputs
#   with gradients are those without a window. Under `no_grad`, where the fast path runs, the window is obeyed; so it is in MultiheadAttention
#   with `need_weights=True`, and not with False. A decoder drops it both ways. Nothing is said.
# Means: What is trained by gradients and what is scored by forward passes are two networks, at one setting. Leave the flag out unless the mask
#   is the plain causal one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn

torch.manual_seed(0)
options = {"dim_feedforward": 32, "batch_first": True}
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, **options), 2).eval()
decoder = nn.TransformerDecoderLayer(16, 4, **options).eval()
attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
x, place = torch.randn(2, 9, 16), torch.arange(9)
far = place[:, None] - place[None]
causal, window = (torch.zeros(9, 9).masked_fill(hidden, -torch.inf) for hidden in (far < 0, (far < 0) | (far > 1)))
passes = {
    "encoder": lambda mask, flag: encoder(x, mask=mask, is_causal=flag),
    "decoder": lambda mask, flag: decoder(x, x, tgt_mask=mask, tgt_is_causal=flag),
    "attention": lambda mask, flag: attention(x, x, x, attn_mask=mask, is_causal=flag, need_weights=False)[0],
    "attention, need_weights": lambda mask, flag: attention(x, x, x, attn_mask=mask, is_causal=flag)[0],
}
seen = {}
for name, one in passes.items():
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            kept = torch.allclose(one(window, True), one(window, False), atol=1e-5)
            lost = torch.allclose(one(window, True), one(causal, True), atol=1e-5)
        seen[name, gradients] = "kept" if kept and not lost else "lost" if lost and not kept else "neither"
        print(f"{name}, {'with gradients' if gradients else 'under no_grad'}: the window is {seen[name, gradients]}")
wanted = {"encoder": ("lost", "kept"), "decoder": ("lost", "lost"), "attention, need_weights": ("kept", "kept")}
raise SystemExit(not all((seen[name, True], seen[name, False]) == value for name, value in wanted.items()))
EOF
"$folder/venv/bin/python" -W ignore program.py
