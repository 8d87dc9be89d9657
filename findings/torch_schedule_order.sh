#!/usr/bin/env bash
# After a resume a warm-up stays at a tenth of its learning rate, where the optimizer is loaded before the schedule is made
#
# Version: torch 2.14.1
# Belief: Optimizer and schedule have a `state_dict` each, and once both are loaded the rates go on as without a pause.
# Seen: Right if the optimizer is loaded last. If it is loaded first, and the schedule made and loaded then, LinearLR from 0.1 is ten times too
#   small for the rest of the run, and so is a warm-up before a cosine (SequentialLR); OneCycleLR, LambdaLR, warm restarts and
#   ConstantLR have one wrong rate, or wrong ones to their end. StepLR, exponential and cosine schedules are right in both orders.
# Means: Making a schedule writes its first rate into the optimizer, and some multiply what they find there. Make the schedule first, load the
#   optimizer last.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import *

makers = {
    "LinearLR": lambda o: LinearLR(o, 0.1, 1, 8),
    "LinearLR, then cosine": lambda o: SequentialLR(o, [LinearLR(o, 0.1, 1, 4), CosineAnnealingLR(o, 8)], [4]),
    "ConstantLR": lambda o: ConstantLR(o, 0.5, 4),
    "OneCycleLR": lambda o: OneCycleLR(o, 1.0, total_steps=20),
    "LambdaLR": lambda o: LambdaLR(o, lambda step: 1 / (1 + step)),
    "warm restarts": lambda o: CosineAnnealingWarmRestarts(o, 4, 2),
    "StepLR": lambda o: StepLR(o, 3, 0.5),
    "ExponentialLR": lambda o: ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: CosineAnnealingLR(o, 10),
}


def optimizer():
    return SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


def rates(optimizer, schedule, count):
    found = []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return torch.tensor(found)


wrong, ratios = {}, {}
for name, make in makers.items():
    first = optimizer()
    schedule = make(first)
    rates(first, schedule, 5)
    kept = first.state_dict(), schedule.state_dict()
    kept = {**kept[0], "param_groups": [dict(kept[0]["param_groups"][0])]}, dict(kept[1])
    states = [dict(each.state_dict()) for each in getattr(schedule, "_schedulers", [])]
    if states:
        kept[1]["_schedulers"] = states
    rest = rates(first, schedule, 7)
    found = {}
    for order in ("optimizer first", "optimizer last"):
        again = optimizer()
        if order == "optimizer first":
            again.load_state_dict(kept[0])
        resumed = make(again)
        resumed.load_state_dict({**kept[1], **({"_schedulers": [dict(each) for each in states]} if states else {})})
        if order == "optimizer last":
            again.load_state_dict(kept[0])
        found[order] = rates(again, resumed, 7)
    wrong[name] = [int((~torch.isclose(found[order], rest)).sum()) for order in found]
    ratios[name] = float(found["optimizer first"][-1] / rest[-1])
    print(f"{name}: wrong rates of seven, optimizer first {wrong[name][0]}, last {wrong[name][1]}; at the end {ratios[name]:.3g} of the right one")
right = ("StepLR", "ExponentialLR", "CosineAnnealingLR")
holds = all(last == 0 for _, last in wrong.values()) and all((count == 0) == (name in right) for name, (count, _) in wrong.items())
raise SystemExit(not (holds and all(abs(ratios[name] - 0.1) < 0.01 for name in ("LinearLR", "LinearLR, then cosine"))))
PROGRAM
