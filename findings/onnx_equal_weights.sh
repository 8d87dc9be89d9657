#!/usr/bin/env bash
# In a file of torch.onnx.export equal weights are one weight, and biases of zero are none
#
# Version: torch 2.14.1, onnx 1.23.2, onnxscript 0.7.2, numpy 2.4.6
# Belief: The initializers of an exported network are its parameters, one for one.
# Seen: A fresh network of two linear layers and two layer norms has eight parameters and the file four: both norms read one weight and
#   one bias, and the linear biases, still zero, are left out. With another number in one bias the file has it. `optimize=False` has all eight.
# Means: Who perturbs, trains or counts the initializers of a file moves both norms as one and cannot move the biases, and how
#   many parameters there are depends on the centre's numbers. Export with `optimize=False`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 onnx==1.23.2 onnxscript==0.7.2 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import contextlib
import io
import logging

import torch
from torch import nn

logging.disable(logging.WARNING)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4)).eval()
for layer in (net[0], net[2]):
    nn.init.zeros_(layer.bias)


def names(**options):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        graph = torch.onnx.export(net, (torch.ones(2, 4),), dynamo=True, verbose=False, **options).model_proto.graph
    norms = [tuple(node.input[1:]) for node in graph.node if node.op_type == "LayerNormalization"]
    return sorted(tensor.name for tensor in graph.initializer), norms


fresh, norms = names()
plain, _ = names(optimize=False)
with torch.no_grad():
    net[0].bias[0], net[3].weight[0] = 1e-6, 1.0001
moved, moved_norms = names()
print(f"parameters {len(list(net.parameters()))}, initializers {len(fresh)}: {fresh}; inputs of the norms {norms}")
print(f"optimize=False: {len(plain)}; with one number changed in a bias and in a norm: {len(moved)}: {moved}")
raise SystemExit(not (len(fresh) == 4 and norms[0] == norms[1] and len(plain) == 8 and len(moved) == 6 and moved_norms[0] != moved_norms[1]))
EOF
