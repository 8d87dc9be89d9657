#!/usr/bin/env bash
# differential_evolution takes a NaN for the best point and never leaves it
#
# Version: scipy 1.17.1, numpy 2.4.6
# Belief: A NaN is the worst value, as infinity is, and the search goes on among finite points.
# Seen: The best is found by argmin, which gives the first NaN, and no comparison ever beats it: with NaN in two fifths of the
#   box the result is a point with the value NaN, after all iterations, for each of three seeds.
# Means: A baseline over hyperparameters some of which diverge returns one that diverges. Return infinity, not NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
from scipy.optimize import differential_evolution


def fitness(bad):
    return lambda x: bad if x[0] > 1 else float(((x - 0.5) ** 2).sum())


for bad in (np.nan, np.inf):
    results = [differential_evolution(fitness(bad), [(-5, 5)] * 3, rng=seed, maxiter=100, polish=False) for seed in range(3)]
    print(f"{bad} beyond x0 = 1: best values", [float(result.fun) for result in results])
    if bad != bad:
        lost = all(np.isnan(result.fun) for result in results)
raise SystemExit(not lost or not all(result.fun < 1e-3 for result in results))
EOF
