#!/usr/bin/env bash
# A member of a network with spectral norm has another norm than 1, and in training mode another fitness each time
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: `spectral_norm` gives every weight a largest singular value of 1.
# Seen: In `eval()` a weight of 64 x 64 with noise of 0.01, 0.03 and 0.1 has a largest singular value of 1.01, 1.06 and 1.60: the vectors
#   that the norm is computed from are those of the centre. In training mode each forward pass moves them, under `no_grad` too, and the
#   same member gives outputs that differ by a tenth in two passes.
# Means: Members of an evolution strategy are not in the class of functions that is trained, the less so the larger sigma is; or their
#   fitness depends on who was evaluated before. Score a member after some passes in training mode, or divide by the norm itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(0)
layer, inputs = spectral_norm(torch.nn.Linear(64, 64)), torch.randn(1, 64)
for _ in range(100):
    layer(inputs)
layer.eval()
centre = layer.parametrizations.weight.original.data.clone()
noise, norms = torch.randn_like(centre), {}
for sigma in (0.0, 0.01, 0.03, 0.1):
    layer.parametrizations.weight.original.data = centre + sigma * noise
    norms[sigma] = float(torch.linalg.svdvals(layer.weight.detach())[0])
print("largest singular value by sigma:", norms)
layer.train()
with torch.no_grad():
    passes = float((layer(inputs) - layer(inputs)).abs().max())
print("two passes of one member in training mode differ by", passes)
raise SystemExit(abs(norms[0.0] - 1) > 0.01 or norms[0.03] < 1.02 or norms[0.1] < 1.3 or passes < 0.01)
EOF
