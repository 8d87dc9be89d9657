#!/usr/bin/env bash
# An evaluation changes a network that is prepared for quantisation, and a diverged member makes all later ones NaN
#
# Version: torch 2.14.1
# Belief: In `eval()` and under `no_grad` a forward pass changes nothing, so members of a population can be scored in any order.
# Seen: The observers of a network from `torch.ao.quantization.prepare_qat` go on in each pass, in `eval()` too: scales are moving averages of
#   what was seen. After a member with large activations the same network on the same inputs has other outputs. After one member with a NaN
#   or an infinity in a bias the scale is NaN or infinite, and every later output of every member NaN, with weights that are fine.
# Means: Fitness depends on the members before, and one diverged member ends the run. Call `disable_observer` on the network before it is
#   evaluated, and `disable_fake_quant` to see what is left.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import copy

import torch
import torch.ao.quantization as quantization
from torch import nn

torch.manual_seed(0)
source = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).train()
source.qconfig = quantization.get_default_qat_qconfig("x86")
quantization.prepare_qat(source, inplace=True)
inputs = torch.randn(64, 8)
source(inputs)
source.eval()


def score(network, x):
    with torch.no_grad():
        return network(x)


def after(value, observers=True):
    """Outputs of one network before and after a member whose first biases are `value` was scored in its place."""
    network = copy.deepcopy(source)
    if not observers:
        network.apply(quantization.disable_observer)
    before = score(network, inputs)
    bias = network[0].bias.detach().clone()
    with torch.no_grad():
        network[0].bias.copy_(bias if value is None else torch.full_like(bias, value))
        score(network, inputs)
        network[0].bias.copy_(bias)
    return before, score(network, inputs)


MEMBERS = {
    "the same biases": (None, True),
    "biases of 1e4": (1e4, True),
    "biases of infinity": (float("inf"), True),
    "biases of NaN": (float("nan"), True),
    "biases of NaN, observers off": (float("nan"), False),
}
seen = {}
for name, (value, observers) in MEMBERS.items():
    before, later = after(value, observers)
    seen[name] = float((later - before).abs().max() / before.std()), float(later.isnan().float().mean())
    print(f"after a member with {name}: outputs moved by {seen[name][0]:.3f} deviations, {seen[name][1]:.0%} of them NaN")
holds = seen["the same biases"][0] < 0.05 and seen["biases of 1e4"][0] > 0.1 and seen["biases of NaN, observers off"] == (0, 0)
holds = holds and seen["biases of infinity"][1] == 1 and seen["biases of NaN"][1] == 1
raise SystemExit(not holds)
PROGRAM
"$folder/venv/bin/python" -W ignore program.py
