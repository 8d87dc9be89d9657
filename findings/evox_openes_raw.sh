#!/usr/bin/env bash
# EvoX's OpenES takes fitnesses as they are: a fitness times 100 moves the centre 100 times as far
#
# Version: evox 1.4.0, torch 2.14.1
# Belief: OpenES ranks or standardises the fitnesses of a generation, as the paper and its namesakes do.
# Seen: Its step is the learning rate times the sum of noise times raw fitness. The first step on a sphere is 0.26, on 100 times
#   the sphere 26.2. Without mirrored sampling a constant of 1,000 added to all fitnesses makes the step 22 times as long. SNES
#   of the same package does not feel either.
# Means: Its learning rate has the unit of an inverse fitness, so rates of other libraries do not carry over, and reward scaling
#   is part of the algorithm. Standardise in the problem, or give it Adam.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evox==1.4.0 torch==2.14.1
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from evox.algorithms import SNES, OpenES
from evox.core import Problem
from evox.workflows import StdWorkflow


class Sphere(Problem):
    def __init__(self, factor, constant):
        super().__init__()
        self.factor, self.constant = factor, constant

    def evaluate(self, points):
        return self.factor * ((points - 3) ** 2).sum(1) + self.constant


def first_step(make, factor=1.0, constant=0.0):
    torch.manual_seed(1)
    algorithm = make(torch.zeros(5))
    StdWorkflow(algorithm, Sphere(factor, constant)).init_step()
    return float(algorithm.center.norm())


mirrored = lambda centre: OpenES(20, centre, 0.01, 0.1)
plain = lambda centre: OpenES(20, centre, 0.01, 0.1, mirrored_sampling=False)
snes = lambda centre: SNES(20, centre, 1.0)
one, hundred = first_step(mirrored), first_step(mirrored, 100.0)
near, far = first_step(plain), first_step(plain, 1.0, 1000.0)
calm = first_step(snes), first_step(snes, 100.0), first_step(snes, 1.0, 1000.0)
print(f"OpenES, mirrored: step {one:.3f}, of 100 times the fitness {hundred:.3f}")
print(f"OpenES, not mirrored: step {near:.2f}, with 1,000 added {far:.2f}")
print("SNES: the three steps", [round(step, 4) for step in calm])
raise SystemExit(not (abs(hundred / one - 100) < 1 and far / near > 10 and max(calm) - min(calm) < 1e-3))
EOF
