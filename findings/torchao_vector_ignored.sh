#!/usr/bin/env bash
# Setting the weights of a module that torchao quantised does nothing, and says nothing
#
# Version: torchao 0.18.0, torch 2.14.1
# Belief: vector_to_parameters sets a quantised module's weights, or refuses; a quantised weight says how little memory it
#   takes.
# Seen: Parameters set to zeros from a vector: the output is the one from before, and a deep copy, which worked before, now
#   raises NotImplementedError. Biases are set, weights are not. The weight says float32 and 8,192 bytes where the same
#   float weight has 8,192.
# Means: Members that are set from a flat vector all have the centre's weights, with other biases, so evolution trains
#   biases alone with no word; budgets by nbytes are four times too large. Compare an output after setting zeros once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchao==0.18.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import copy

import torch
from torch import nn
from torch.nn.utils import vector_to_parameters
from torchao.quantization import Int8WeightOnlyConfig, quantize_

module, ones = nn.Sequential(nn.Linear(64, 32, bias=False)), torch.ones(1, 64)
quantize_(module, Int8WeightOnlyConfig())
said = (module[0].weight.dtype, module[0].weight.nbytes)
before = module(ones)
copied = torch.equal(copy.deepcopy(module)(ones), before)
vector_to_parameters(torch.zeros(64 * 32), module.parameters())
same = torch.equal(module(ones), before)
try:
    copy.deepcopy(module)
    after = "works"
except NotImplementedError:
    after = "NotImplementedError"
print(f"weight of 32 x 64: {said[0]}, {said[1]} bytes")
print(f"after vector_to_parameters of zeros: same output {same}; a deep copy before {copied}, after {after}")
raise SystemExit((said, copied, same, after) != ((torch.float32, 8192), True, True, "NotImplementedError"))
EOF
