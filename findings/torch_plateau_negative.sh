#!/usr/bin/env bash
# On a plateau below zero `ReduceLROnPlateau` never reduces, and takes a loss that rises for one that improves
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: A loss that stays the same, or becomes worse, for more epochs than `patience` reduces the learning rate.
# Seen: By the defaults (`mode="min"`, a relative threshold of 1e-4) a loss of 100 for 100 epochs takes the rate from 1 to 1e-8, one of
#   -100 leaves it at 1. A loss that rises from -100 by 0.005 an epoch leaves it too, and `best` rises with it to -99.505. So
#   do returns of -100 that stay or fall, under `mode="max"`. `threshold_mode="abs"` reduces in all of them.
# Means: Negative returns, log likelihoods and most fitnesses are below zero: the schedule is never used there, without a word. The
#   threshold is multiplied with the best value, which below zero is beyond it. Take `threshold_mode="abs"`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch


def rate(mode, values, **options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, **options)
    for value in values:
        schedule.step(value)
    return optimizer.param_groups[0]["lr"], schedule.best


cases = {
    "a loss of 100": ("min", [100.0] * 100),
    "a loss of -100": ("min", [-100.0] * 100),
    "a loss that rises from -100": ("min", [-100 + 0.005 * epoch for epoch in range(100)]),
    "a return of -100": ("max", [-100.0] * 100),
    "a return that falls from -100": ("max", [-100 - 0.005 * epoch for epoch in range(100)]),
}
stays = {name: rate(*case)[0] > 0.9 for name, case in cases.items()}
for name, case in cases.items():
    print(name, "rate and best:", *rate(*case), "with an absolute threshold:", *rate(*case, threshold_mode="abs"))
absolute = [rate(*case, threshold_mode="abs")[0] < 0.9 for case in cases.values()]
best = rate(*cases["a loss that rises from -100"])[1]
raise SystemExit(list(stays.values()) != [False] + [True] * 4 or not all(absolute) or best < -99.6)
EOF
