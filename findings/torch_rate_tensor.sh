#!/usr/bin/env bash
# A learning rate that is a tensor is reduced twice by a plateau where two groups have it, and follows another optimizer's schedule
#
# Version: torch 2.14.1
# Belief: `lr=torch.tensor(0.1)` is a learning rate of 0.1, in each group and optimizer that it is given to.
# Seen: The groups of an optimizer keep the tensor itself, and schedules write into it. ReduceLROnPlateau reduces it once for each
#   group: with a factor of 0.5 and two groups it is a fourth after one plateau. Thirteen other schedules set a value and are right. Two
#   optimizers that were given one tensor follow each other's schedule, and a second run in the same process starts with the rate at
#   which the first one ended. A `state_dict` that was taken before changes too.
# Means: Compiled optimizers want a tensor. Make one for each group: with one tensor a plateau is too steep and a comparison of two
#   runs is between two rates.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torch.optim import SGD, lr_scheduler


def after(make, rate, groups, plateau=False):
    weights = [nn.Parameter(torch.ones(1)) for _ in range(groups)]
    optimizer = SGD([{"params": [weight]} for weight in weights], lr=rate)
    saved = optimizer.state_dict()
    schedule = make(optimizer)
    for _ in range(2):
        optimizer.step()
        schedule.step(1.0) if plateau else schedule.step()
    return round(float(optimizer.param_groups[0]["lr"]), 4), round(float(saved["param_groups"][0]["lr"]), 4)


plateau = lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)  # noqa: E731
halved = lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5)  # noqa: E731
numbers, tensors = after(plateau, 0.1, 2, True), after(plateau, torch.tensor(0.1), 2, True)
print("one plateau, two groups: rate now and in an older state_dict", numbers, "as a tensor", tensors)
exponential = after(halved, 0.1, 2), after(halved, torch.tensor(0.1), 2)
print("two steps of ExponentialLR, two groups:", exponential[0], "as a tensor", exponential[1])
rate = torch.tensor(0.1)
runs = [after(halved, rate, 1)[0] for _ in range(3)]
print("three runs with one tensor end with", runs)
as_seen = numbers == (0.05, 0.1) and tensors == (0.025, 0.025) and exponential == ((0.025, 0.1), (0.025, 0.025))
raise SystemExit(not (as_seen and runs == [0.025, 0.0063, 0.0016]))
EOF
"$folder/venv/bin/python" -W ignore program.py
