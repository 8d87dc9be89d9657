#!/usr/bin/env bash
# Within one autocast block every member of a changed network is the first one, where its weights require gradients
#
# Version: torch 2.14.1, numpy 2.4.6 (a CPU)
# Belief: autocast rounds the weights that a layer has when it is called. Under no_grad it has nothing to remember.
# Seen: Weights that require gradients are rounded once in a block, under no_grad too. What changes them later in the block is not seen: add_, .data, a
#   new .data, copy_, load_state_dict, vector_to_parameters, an optimizer's step. It is seen with assign=True, with a new Parameter, under
#   inference_mode, for weights without gradients, and by layers that autocast leaves in float32: a norm in the network follows.
# Means: A loop over members inside of `with torch.autocast(...)` gives all of them the fitness of the first, or one of mixed layers. One block a
#   member, `cache_enabled=False` or `requires_grad_(False)` is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def add(net):
    for parameter in net.parameters():
        parameter.add_(1)


def replace_data(net):
    for parameter in net.parameters():
        parameter.data = parameter.data + 1


def add_to_data(net):
    for parameter in net.parameters():
        parameter.data.add_(1)


def sgd(net):
    for parameter in net.parameters():
        parameter.grad = -torch.ones_like(parameter)
    torch.optim.SGD(net.parameters(), lr=1.0).step()


def load(net, **how):
    net.load_state_dict({name: weight + 1 for name, weight in net.state_dict().items()}, **how)


def fresh(net):
    net.weight, net.bias = nn.Parameter(net.weight + 1), nn.Parameter(net.bias + 1)


WAYS = {
    "add_": add,
    "data.add_": add_to_data,
    "data =": replace_data,
    "load_state_dict": load,
    "vector_to_parameters": lambda net: vector_to_parameters(parameters_to_vector(net.parameters()) + 1, net.parameters()),
    "SGD": sgd,
    "load assign=True": lambda net: load(net, assign=True),
    "new Parameter": fresh,
}
x = torch.ones(2, 4)


def seen(way, mode=torch.no_grad, gradients=True, **autocast):
    net = nn.Linear(4, 3).requires_grad_(gradients)
    with mode(), torch.autocast("cpu", torch.bfloat16, **autocast):
        before = net(x)
        WAYS[way](net)
        return not torch.equal(net(x), before)


stale = [way for way in WAYS if not seen(way)]
print("not seen in the block:", ", ".join(stale))
assert stale == list(WAYS)[:6]
assert all(seen("add_", **kind) for kind in ({"gradients": False}, {"mode": torch.inference_mode}, {"cache_enabled": False}))
net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
    linear, norm = net[0](x), net(x)
    add(net)
    follows = [not torch.equal(net[0](x), linear), not torch.equal(net(x), norm)]
print("changes seen of a linear layer, of a norm behind it:", follows)
assert follows == [False, True]
PROGRAM
