#!/usr/bin/env bash
# A spiking neuron at its threshold fires in spikingjelly and not in snnTorch, and a NaN makes it silent in both
#
# Version: spikingjelly 2.0.0, snntorch 1.0.0, torch 2.14.1, numpy 2.4.6
# Belief: An integrate-and-fire neuron of one threshold is the same in two libraries, and a network that diverged shows NaN.
# Seen: A membrane of exactly 1 with a threshold of 1 fires in spikingjelly alone. With integer weights from -2 to 2, 32 binary inputs and a
#   threshold of 3, 30 % of the neurons fire there and 24 % in snnTorch. A membrane of NaN gives spikes of 0, in this step and in all later
#   ones, whatever comes in.
# Means: A network with integer or ternary weights is another one after a change of library, and a member that diverged is a silent one
#   with an ordinary fitness. Put thresholds between the values that occur, and look at the membrane for NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet spikingjelly==2.0.0 snntorch==1.0.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import snntorch
import torch
from spikingjelly.activation_based import neuron

torch.manual_seed(0)


def spikes(inputs, threshold):
    first = snntorch.Leaky(beta=1.0, threshold=threshold, init_hidden=True)
    second = neuron.IFNode(v_threshold=threshold)
    return {"snntorch": first(inputs), "spikingjelly": second(inputs)}


near = {name: out.tolist() for name, out in spikes(torch.tensor([0.999, 1.0, 1.001]), 1.0).items()}
print("spikes of membranes of 0.999, 1 and 1.001:", near)
weight = torch.randint(-2, 3, (64, 32)).float()
inputs = torch.randint(0, 2, (256, 32)).float() @ weight.t()
rates = {name: float(out.mean()) for name, out in spikes(inputs, 3.0).items()}
print("share of neurons that fire with integer weights:", rates)
silent = {}
for name, layer in {"snntorch": snntorch.Leaky(beta=0.9, init_hidden=True), "spikingjelly": neuron.IFNode()}.items():
    silent[name] = [layer(torch.tensor([value, 2.0])).tolist() for value in (float("nan"), 2.0, 2.0)]
print("spikes after a NaN in the first of two neurons, three steps:", silent)
wrong = near != {"snntorch": [0, 0, 1], "spikingjelly": [0, 1, 1]} or rates["spikingjelly"] - rates["snntorch"] < 0.03
raise SystemExit(wrong or any(step[0] != 0 for steps in silent.values() for step in steps))
EOF
