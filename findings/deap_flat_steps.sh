#!/usr/bin/env bash
# On equal fitnesses DEAP's (1+1) strategy takes each step, and its sigma grows without bound: 36,000 after 50 generations
#
# Version: deap 1.4.4, numpy 2.4.6
# Belief: A plateau leaves sigma where it is, or shrinks it, as no member is better than its parent.
# Seen: `StrategyOnePlusLambda` counts an equal fitness as a success, so that the rate of successes is 1 and sigma grows by a fourth in each
#   generation. Where a reward is 0 but near one point, 3 away in five dimensions, sigma goes from 0.5 to 36,000 and the parent to 1e4 and
#   beyond in 50 generations, in each of eleven runs.
# Means: With sparse rewards the search leaves for where nothing is, or the network is saturated. Leave out steps of equal fitness, or restart
#   with the first sigma.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet deap==1.4.4 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from deap import base, cma, creator

creator.create("Fitness", base.Fitness, weights=(1.0,))
creator.create("Member", list, fitness=creator.Fitness)


def reward(weights):
    """Return 1 within 0.3 of a point that lies 3 away from the start, 0 elsewhere."""
    return float(np.linalg.norm(weights - 3 / np.sqrt(5)) < 0.3)


def sphere(weights):
    return -float(np.sum((weights - 3 / np.sqrt(5)) ** 2))


def search(function, seed):
    np.random.seed(seed)
    parent = creator.Member([0.0] * 5)
    parent.fitness.values = (function(np.array(parent)),)
    strategy = cma.StrategyOnePlusLambda(parent, sigma=0.5, lambda_=1)
    for _ in range(50):
        (member,) = members = strategy.generate(creator.Member)
        member.fitness.values = (function(np.array(member)),)
        strategy.update(members)
    return strategy.sigma, float(np.linalg.norm(strategy.parent))


seen = {}
for function in (reward, sphere):
    sigmas, distances = zip(*(search(function, seed) for seed in range(11)))
    seen[function] = min(sigmas), max(sigmas), min(distances)
    print(f"{function.__name__}: sigma from 0.5 to {min(sigmas):.3g} and up to {max(sigmas):.3g}, "
          f"distance of the parent from the start {min(distances):.3g} to {max(distances):.3g}")
raise SystemExit(not (seen[reward][0] > 1e4 and seen[reward][2] > 1e3 and seen[sphere][1] < 10))
PROGRAM
