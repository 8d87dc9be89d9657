#!/usr/bin/env bash
# A row of zeros is NaN in torchao's float8 weights, and a tied head parts from its embedding
#
# Version: torchao 0.18.0, torch 2.14.1
# Belief: Zeros are exact in any type, and `quantize_` leaves a network's ties as they are.
# Seen: An output whose weights are all 0 is NaN with `Float8WeightOnlyConfig`: the scale of its row is 0, and 0 / 0 is stored. int8 and
#   int4 rows of zeros give 0. In a network whose head is its embedding `quantize_` replaces the head's weight alone: the embedding stays in
#   float32, a change of it does not reach the head, and memory grows.
# Means: A pruned or dead row makes the complete network NaN once it is quantised, though the float one is fine. Noise on a tied embedding
#   changes half of what it did. Look for rows of zeros before, and tie after.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchao==0.18.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_

torch.manual_seed(0)
x, seen = torch.randn(3, 64), {}
configs = {"float8": Float8WeightOnlyConfig(), "int8": Int8WeightOnlyConfig(), "int4": IntxWeightOnlyConfig(weight_dtype=torch.int4)}
for name, config in configs.items():
    layer = nn.Sequential(nn.Linear(64, 8, bias=False))
    with torch.no_grad():
        layer[0].weight[3] = 0
    quantize_(layer, config)
    outputs = layer(x)
    seen[name] = outputs[:, 3].isnan().all().item(), outputs.isnan().sum().item()
    print(f"{name}: output of a row of zeros {outputs[0, 3].item()}, NaN in {seen[name][1]} of {outputs.numel()}")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(32, 64), nn.Linear(64, 32, bias=False)
        self.head.weight = self.embedding.weight


network = Tied()
quantize_(network, Int8WeightOnlyConfig())
before = network.head(x)
with torch.no_grad():
    network.embedding.weight.mul_(2)
followed = not torch.equal(before, network.head(x))
print("types after quantize_:", type(network.embedding.weight).__name__, type(network.head.weight).__name__)
print("the head follows its embedding:", followed)
raise SystemExit(seen != {"float8": (True, 3), "int8": (False, 0), "int4": (False, 0)} or followed)
EOF
"$folder/venv/bin/python" -W ignore program.py
