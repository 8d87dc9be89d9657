#!/usr/bin/env bash
# Weight norm that is put on after the optimizer was made leaves the weight untrained, with no word
#
# Version: torch 2.14.1
# Belief: A parametrisation changes how a weight is computed; an optimizer goes on with the parameters that it has.
# Seen: `weight_norm` (both of torch's) replaces the parameter: the optimizer's one is no longer in the module, and a step moves
#   nothing. Taking it off again does the same. `spectral_norm`, `orthogonal` and pruning keep it as their original, and train.
# Means: A comparison of parametrisations has an arm that does not learn, without an error: gradients of what the optimizer holds
#   are None, which it skips. Build the optimizer last.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, weight_norm


def moved(late, early=lambda net: None):
    torch.manual_seed(0)
    net = nn.Linear(3, 3)
    early(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    late(net)
    net(torch.ones(1, 3))
    before = net.weight.detach().clone()
    (net(torch.ones(1, 3)) ** 2).sum().backward()
    optimizer.step()
    net(torch.ones(1, 3))
    return not torch.equal(before, net.weight)


seen = {
    "weight_norm": moved(parametrizations.weight_norm),
    "old weight_norm": moved(weight_norm),
    "weight_norm taken off": moved(lambda net: parametrize.remove_parametrizations(net, "weight"), parametrizations.weight_norm),
    "prune": moved(lambda net: prune.l1_unstructured(net, "weight", 1)),
    "spectral_norm": moved(parametrizations.spectral_norm),
    "orthogonal": moved(parametrizations.orthogonal),
}
print("the weight moves in a step of an optimizer that was made before:", seen)
raise SystemExit(list(seen.values()) != [False] * 3 + [True] * 3)
EOF
