#!/usr/bin/env bash
# snnTorch's reset clears other networks too, and neither copies nor nested layers
#
# Version: snntorch 1.0.0, torch 2.14.1, numpy 2.4.6
# Belief: utils.reset(net) sets the membrane potentials of the neurons in net to zero, and of these only.
# Seen: It looks for neurons among the direct children of net, and clears all neurons of those classes that the process
#   created. So a reset of one network zeroes the others, the reset of a deep copy clears its original and not the copy, and a
#   network with neurons in an inner Sequential is not either. The list of neurons keeps them alive for ever.
# Means: A neuron with init_hidden gives one input other outputs from pass to pass (0, 0, 1, 0, 0, 1), so members need a reset;
#   members that are deep copies never get it, and a member in another thread gets it in the middle of its episode. Set `mem`
#   of each neuron yourself, or pass the state as an argument.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet snntorch==1.0.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import copy
import gc
import weakref

import snntorch
import torch
from snntorch import utils

x = torch.full((1,), 0.4)


def network(nested=False):
    net = torch.nn.Sequential(snntorch.Leaky(beta=0.9, init_hidden=True))
    return torch.nn.Sequential(net) if nested else net


def potential(net):
    return round(float(next(module for module in net.modules() if isinstance(module, snntorch.Leaky)).mem), 2)


with torch.no_grad():
    outputs = [int(net(x)) for net in [network().eval()] * 6]
    first, second, nested = network(), network(), network(nested=True)
    nested(x)
    utils.reset(nested)
    inner = potential(nested)
    first(x)
    copied = copy.deepcopy(first)
    utils.reset(copied)
    own, original = potential(copied), potential(first)
    first(x)
    before = potential(first)
    second(x)
    utils.reset(second)
    after = potential(first)
alive = weakref.ref(first[0])
del first
gc.collect()
print(f"six passes of one input: {outputs}")
print(f"potential after a reset of its own network: inner layer {inner}, deep copy {own} (its original {original})")
print(f"potential of a network before and after the reset of another: {before}, {after}; freed: {alive() is None}")
seen = (inner, own, original, before, after)
raise SystemExit(outputs != [0, 0, 1] * 2 or seen != (0.4, 0.4, 0.0, 0.4, 0.0) or alive() is None)
EOF
