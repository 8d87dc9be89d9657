#!/usr/bin/env bash
# A brevitas network that is only evaluated clips every activation at 1
#
# Version: brevitas 0.13.4, torch 2.14.1, numpy 2.4.6
# Belief: A quantised activation measures its range from what it sees, so a fresh network in evaluation mode quantises over the
#   range of its inputs.
# Seen: Ranges are collected by passes in training mode alone. In evaluation mode a fresh QuantReLU has the range 1: of inputs of
#   deviation 3 over a third end at 1.0 exactly, without a warning. After one pass in training mode the range is that of the data.
# Means: Evolution scores in evaluation mode and never makes a training pass, so it trains another network than gradient training
#   does. Make some passes in training mode first, and not between members, or the range depends on their order.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet brevitas==0.13.4 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import brevitas.nn as qnn
import torch

torch.manual_seed(0)
layer, x = qnn.QuantReLU(bit_width=8), 3 * torch.randn(10_000)
layer.eval()
fresh = layer(x).detach()
layer.train()
layer(x)
layer.eval()
seen = layer(x).detach()
clipped = float((fresh == fresh.max()).float().mean())
print(f"largest input {float(x.max()):.2f}; fresh layer: largest output {float(fresh.max()):.2f}, {clipped:.0%} of all there")
print(f"after a pass in training mode: largest output {float(seen.max()):.2f}")
raise SystemExit(not (abs(float(fresh.max()) - 1) < 0.01 and clipped > 0.3 and float(seen.max()) > 5))
EOF
