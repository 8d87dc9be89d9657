#!/usr/bin/env bash
# Changes in place of a weight that optimum-quanto quantised are lost, all of them
#
# Version: optimum-quanto 0.2.7, torch 2.14.1
# Belief: Noise that is added to a frozen weight in place moves the outputs, or is refused.
# Seen: `add_`, `mul_`, `copy_`, `data.add_` and `vector_to_parameters` run without a word, and outputs are the same to the bit:
#   they are done on a float copy that is thrown away. `weight + noise` under `functional_call` works, on dequantised numbers; a
#   deep copy of the module raises.
# Means: Members that are perturbed in place are all the centre, and fitnesses are equal. Perturb before `freeze`, or by
#   `functional_call`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-deps optimum-quanto==0.2.7
"$folder/venv/bin/pip" install --quiet huggingface_hub ninja safetensors torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from optimum.quanto import freeze, qint8, quantize
from torch import nn
from torch.func import functional_call
from torch.nn.utils import vector_to_parameters

torch.set_grad_enabled(False)
x, zeros = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)), torch.zeros(32, 64)


def made():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32, bias=False))
    quantize(net, weights=qint8)
    freeze(net)
    return net


changes = {
    "add_": lambda net: net[0].weight.add_(1),
    "mul_": lambda net: net[0].weight.mul_(2),
    "copy_": lambda net: net[0].weight.copy_(zeros),
    "data.add_": lambda net: net[0].weight.data.add_(1),
    "vector_to_parameters": lambda net: vector_to_parameters(zeros.flatten(), net.parameters()),
}
same = {}
for name, change in changes.items():
    net = made()
    before = net(x)
    change(net)
    same[name] = torch.equal(net(x), before)
net = made()
by_call = float((functional_call(net, {"0.weight": net[0].weight + 0.1}, (x,)) - net(x)).abs().max())
print("outputs as before:", same, f"| moved by functional_call: {by_call:.2f}")
raise SystemExit(not (all(same.values()) and by_call > 0.1))
EOF
