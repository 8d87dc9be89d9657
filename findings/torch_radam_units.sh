#!/usr/bin/env bash
# RAdam's first five steps are as long as the gradient, and the schedule-free RAdam makes none
#
# Version: torch 2.14.1, schedulefree 1.4.1
# Belief: RAdam is Adam with a warm-up: its steps have the size of the rate whatever the gradient's scale.
# Seen: torch.optim.RAdam with its default betas takes five steps of momentum SGD first: with a gradient of 1e6 everywhere
#   and a rate of 0.01 a parameter moves by 10,000 in each, from the sixth step on by about 0.0003. RAdamScheduleFree does
#   not move at all in its first steps (silent_sgd_phase).
# Means: An evolution strategy with raw fitnesses (an offset, returns of thousands) has lost its centre after one
#   generation, and short runs of the other are five generations of nothing. Use Adam, or shaped fitnesses.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 schedulefree==1.4.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from schedulefree import RAdamScheduleFree


def moves(kind, scale, count):
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer, made = kind([parameter], lr=0.01), []
    if hasattr(optimizer, "train"):
        optimizer.train()
    for _ in range(count):
        before = float(parameter)
        parameter.grad = torch.full((1,), scale, dtype=torch.float64)
        optimizer.step()
        made.append(abs(float(parameter) - before))
    return made


large, adam, free = moves(torch.optim.RAdam, 1e6, 7), moves(torch.optim.Adam, 1e6, 7), moves(RAdamScheduleFree, 1.0, 7)
for name, made in (("RAdam, gradient 1e6", large), ("Adam, gradient 1e6", adam), ("RAdamScheduleFree, gradient 1", free)):
    print(f"{name}: {[f'{move:.2g}' for move in made]}")
still = [move == 0 for move in free]
raise SystemExit(not (min(large[:5]) > 1000 and max(large[5:]) < 0.01 and max(adam) < 0.011 and all(still[:4]) and not all(still)))
EOF
