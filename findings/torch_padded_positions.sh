#!/usr/bin/env bash
# A TransformerEncoder in evaluation has other outputs under no_grad than without, where positions are padded
#
# Version: torch 2.14.1; AMD Zen 4, Intel Xeon with AMX
# Belief: no_grad saves memory and changes no output; gradients and evaluations see one network.
# Seen: In eval mode and under no_grad a fast path of nested tensors is taken, which gives padded positions zeros; with
#   gradients on they have numbers of size 2. Other positions agree to 1e-6. A mean over positions differs in its first digit.
# Means: A fitness by a mean over positions is one function in a search without gradients and another where it is compared
#   with backpropagation. Multiply by the mask before the mean.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch
from torch import nn

torch.manual_seed(0)
net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
x, padded = torch.randn(3, 6, 16), torch.zeros(3, 6, dtype=torch.bool)
padded[0, 4:] = padded[1, 3:] = padded[2, 5:] = True
with_gradients = net(x, src_key_padding_mask=padded).detach()
with torch.no_grad():
    without = net(x, src_key_padding_mask=padded)
length = without.shape[1]
apart = (with_gradients[:, :length] - without).abs().amax(2)
hidden, shown = apart[padded[:, :length]].max(), apart[~padded[:, :length]].max()
print(f"largest difference where padded {hidden:.2f}, elsewhere {shown:.1e}")
means = with_gradients.mean(1)[0, :3], without.mean(1)[0, :3]
print(f"mean over positions, first example: with gradients {means[0].tolist()}, without {means[1].tolist()}")
zeros = bool((without[padded[:, :length]] == 0).all())
print("padded positions are zeros under no_grad:", zeros)
moved = (means[0] - means[1]).abs().max() > 0.05
raise SystemExit(not (zeros and moved and shown < 1e-5 and hidden > 1))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
