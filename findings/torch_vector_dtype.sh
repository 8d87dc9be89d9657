#!/usr/bin/env bash
# A bfloat16 module set from a float32 vector is a float32 module
#
# Version: torch 2.14.1
# Belief: vector_to_parameters writes numbers into a module as copy_ does: the module keeps its type.
# Seen: Parameters get slices of the vector in place of their memory, and its type with it: a bfloat16 module set from float32
#   is float32, with twice the memory, its outputs have other digits, and its buffers stay bfloat16. load_state_dict keeps the
#   type.
# Means: Centre and members of one search are other networks: the centre before its first update rounds and members do not, so
#   that a fitness changes by the way weights were set. Call vector.to(next(module.parameters()).dtype), or copy_ in a loop.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)).to(torch.bfloat16)
x = torch.randn(8, 64)


def outputs():
    first = next(net.parameters())
    return net(x.to(first.dtype)).float().detach()


before, vector = outputs(), parameters_to_vector(net.parameters()).float().detach()
kept = {name: number.clone() for name, number in net.state_dict().items()}
vector_to_parameters(vector, net.parameters())
types = {str(parameter.dtype) for parameter in net.parameters()}
after = outputs()
print(f"after vector_to_parameters: {types}, same numbers; outputs move by up to {(after - before).abs().max():.1e}")
net.to(torch.bfloat16).load_state_dict({name: number.float() for name, number in kept.items()})
loaded = {str(parameter.dtype) for parameter in net.parameters()}
print("after load_state_dict of float32 numbers:", loaded)
raise SystemExit(not (types == {"torch.float32"} and loaded == {"torch.bfloat16"} and (after - before).abs().max() > 1e-4))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
