#!/usr/bin/env bash
# One diverged member puts the other members of a cmaes generation in a wrong order
#
# Version: cmaes 0.13.1, numpy 2.4.6
# Belief: A fitness of NaN is refused, or the member is the last one.
# Seen: `tell` sorts pairs by Python's sort, for which NaN is in order anywhere. With one NaN in a generation of eight the new mean is another one than
#   with that member ranked last in a third of 300 generations, by up to 2.1 to 2.6 initial sigma, in CMA, SepCMA, MAPCMA and XNES. On a sphere of eight dimensions
#   where every fifth evaluation diverges, 100 generations end with hundreds of times the loss that they have with infinity in place of NaN.
# Means: Optuna's sampler leaves such trials out; who calls the package tells the numbers as they come. Tell infinity for a member that diverged.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cmaes==0.13.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import math

import cmaes
import numpy as np


def loss(x):
    return float(((x - 3) ** 2).sum())


def mean_of(search):
    return getattr(search, "_mean")


holds = True
for name in ("CMA", "SepCMA", "MAPCMA", "XNES"):
    places, other, largest = np.random.default_rng(0), 0, 0.0
    for seed in range(300):
        diverged, means = int(places.integers(8)), []
        for worst in (math.nan, math.inf):
            search = getattr(cmaes, name)(mean=np.zeros(4), sigma=1.0, seed=seed)
            members = [search.ask() for _ in range(8)]
            search.tell([(x, worst if k == diverged else loss(x)) for k, x in enumerate(members)])
            means.append(mean_of(search))
        apart = float(np.abs(means[0] - means[1]).max())
        other, largest = other + (apart > 1e-9), max(largest, apart)
    print(f"{name}: another mean in {other} of 300 generations, by up to {largest:.2f}")
    holds &= 50 < other < 200 and largest > 1
ends = {}
for worst in (math.nan, math.inf):
    ends[worst] = []
    for seed in range(20):
        search, draws = cmaes.CMA(mean=np.zeros(8), sigma=1.0, seed=seed), np.random.default_rng(seed)
        for _ in range(100):
            members = [search.ask() for _ in range(search.population_size)]
            search.tell([(x, worst if draws.random() < 0.2 else loss(x)) for x in members])
        ends[worst].append(loss(search.mean))
    print(f"a fifth of evaluations are {worst}: median loss of the mean after 100 generations {np.median(ends[worst]):.2g}, largest {max(ends[worst]):.2g}")
raise SystemExit(not (holds and np.median(ends[math.nan]) > 30 * np.median(ends[math.inf])))
PROGRAM
