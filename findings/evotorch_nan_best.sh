#!/usr/bin/env bash
# EvoTorch ranks a NaN first where fitnesses are maximised, and last where they are minimised
#
# Version: evotorch 0.6.1, torch 2.14.1, numpy 2.4.6
# Belief: A member without a fitness counts as the worst, or not at all, whichever way the problem goes.
# Seen: Ranks come from argsort, for which NaN is the largest number. Under "max" the methods centered, linear and nes give NaN the
#   highest utility, under "min" the lowest. SNES on a landscape with no fitness beyond a border moves over the border
#   in the first case until nearly all members have NaN, and stays away in the second.
# Means: Rewards are maximised, so members whose simulation diverged pull the centre towards themselves, and the status shows the
#   best finite fitness of before. Replace NaN in the fitness function.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evotorch==0.6.1 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging

import torch
from evotorch import Problem
from evotorch.algorithms import SNES
from evotorch.tools.ranking import rank

logging.disable(logging.CRITICAL)
fitness = torch.tensor([1.0, 2.0, float("nan"), 4.0])
for method in ("centered", "linear", "nes"):
    up, down = (rank(fitness, ranking_method=method, higher_is_better=higher)[2] for higher in (True, False))
    print(f"{method}: the NaN has utility {up:.2f} of a maximum, {down:.2f} of a minimum")


def share_of_nan(sense):
    seen = []

    def score(x):
        seen.append(len(x))
        plain = x.as_subclass(torch.Tensor)
        values = (plain**2).sum(1) * (1 if sense == "min" else -1)
        if len(seen) > 1:  # the first population is all of finite members
            values[plain[:, 0] > 0.5] = float("nan")
        return values

    problem = Problem(sense, score, solution_length=5, initial_bounds=(-0.1, 0.1), vectorized=True, seed=1)
    search = SNES(problem, stdev_init=1.0, popsize=20)
    for _ in range(60):
        search.step()
    evals = search.population.evals.as_subclass(torch.Tensor)
    print(f"{sense}: after 60 generations {float(evals.isnan().float().mean()):.0%} of the members have NaN,", end=" ")
    print(f"centre {float(search.status['center'][0]):.2f}")
    return float(evals.isnan().float().mean())


most, least = share_of_nan("max"), share_of_nan("min")
raise SystemExit(not (most > 0.5 and least < 0.2))
EOF
