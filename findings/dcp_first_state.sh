#!/usr/bin/env bash
# Asking for the state of an optimizer that has not stepped yet changes its first steps, by 26 % in Adam and to nothing in Rprop
#
# Version: torch 2.14.1, `torch.distributed.checkpoint.state_dict`, one process
# Belief: `get_optimizer_state_dict` and `get_state_dict` read, so that a checkpoint before the first step changes nothing.
# Seen: Of a fresh optimizer they make the state by a step with gradients of zero and a learning rate of 0, and leave it there: Adam's
#   count is 1, so that its first real step is 0.074 long in place of 0.1. Rprop has step sizes of 0 and starts with 1e-6 in place of
#   0.1; ASGD's first step is nothing; RAdam's is half, Adamax's half, SGD's with a dampening of 0.5 half. SGD with momentum, Adagrad,
#   RMSprop and Muon are as without it. Nothing is said.
# Means: A run that saves its start, or that asks for the state to load a checkpoint that is not there yet, is another run than one
#   that does not; with Rprop it does not train. Take the first checkpoint after the first step.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

OPTIMIZERS = {
    "Adam": lambda weights: torch.optim.Adam(weights, lr=0.1),
    "AdamW": lambda weights: torch.optim.AdamW(weights, lr=0.1, weight_decay=0.0),
    "RAdam": lambda weights: torch.optim.RAdam(weights, lr=0.1),
    "Adamax": lambda weights: torch.optim.Adamax(weights, lr=0.1),
    "Rprop": lambda weights: torch.optim.Rprop(weights, lr=0.1),
    "ASGD": lambda weights: torch.optim.ASGD(weights, lr=0.1),
    "SGD, dampening": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, dampening=0.5),
    "SGD, momentum": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "Adagrad": lambda weights: torch.optim.Adagrad(weights, lr=0.1),
    "RMSprop": lambda weights: torch.optim.RMSprop(weights, lr=0.1),
    "Muon": lambda weights: torch.optim.Muon(weights, lr=0.1),
}


def first(make, asked):
    torch.manual_seed(0)
    module = nn.Linear(3, 2, bias=False)
    optimizer, start = make(module.parameters()), module.weight.detach().clone()
    if asked:
        get_optimizer_state_dict(module, optimizer)
        assert torch.equal(module.weight, start)
    (module(torch.ones(4, 3)) ** 2).sum().backward()
    optimizer.step()
    return (module.weight - start).abs().mean().item()


ratios = {}
for name, make in OPTIMIZERS.items():
    plain, asked = first(make, False), first(make, True)
    ratios[name] = asked / plain
    print(f"{name}: first step {plain:.3g}, after its state was asked for {asked:.3g}")
same = {name for name, ratio in ratios.items() if abs(ratio - 1) < 1e-3}
as_seen = same == {"SGD, momentum", "Adagrad", "RMSprop", "Muon"} and 0.7 < ratios["Adam"] < 0.78 and ratios["Rprop"] < 1e-4
raise SystemExit(not (as_seen and ratios["ASGD"] == 0 and ratios["RAdam"] < 0.6 and ratios["Adamax"] < 0.6))
EOF
"$folder/venv/bin/python" -W ignore program.py
