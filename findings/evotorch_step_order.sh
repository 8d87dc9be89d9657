#!/usr/bin/env bash
# n steps of EvoTorch evaluate n populations and update n - 1 times
#
# Version: evotorch 0.6.1, torch 2.14.1, numpy 2.4.6
# Belief: A step samples, evaluates and updates, so that the centre after one step has learnt from one population.
# Seen: The first step of SNES, PGPE and XNES only evaluates; each later one updates from the population before, then samples and
#   evaluates. After one step the centre is where it began, and the centre of the status never knows the last population.
# Means: A comparison at an equal number of evaluations is one update behind for EvoTorch: of 100 generations it uses 99, of
#   the 10 of a quick test 9, and a test that takes one step sees no learning at all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evotorch==0.6.1 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging

import torch
from evotorch import Problem
from evotorch.algorithms import PGPE, SNES, XNES

logging.disable(logging.CRITICAL)
holds = True
for kind, options in (
    (SNES, {"stdev_init": 1.0}),
    (XNES, {"stdev_init": 1.0}),
    (PGPE, {"stdev_init": 1.0, "center_learning_rate": 0.1, "stdev_learning_rate": 0.1}),
):
    evaluated = []

    def score(x):
        evaluated.append(len(x))
        return ((x.as_subclass(torch.Tensor) - 3) ** 2).sum(1)

    problem = Problem("min", score, solution_length=5, initial_bounds=(-1, 1), vectorized=True, seed=1)
    search = kind(problem, popsize=20, center_init=torch.zeros(5), **options)
    moved = []
    for _ in range(3):
        search.step()
        moved.append(float(torch.as_tensor(search.status["center"].clone()).norm()))
    distances = [round(distance, 3) for distance in moved]
    print(f"{kind.__name__}: populations {len(evaluated)}, distance of the centre after 1, 2, 3 steps: {distances}")
    holds &= len(evaluated) == 3 and moved[0] == 0 and moved[1] > 0
raise SystemExit(not holds)
EOF
