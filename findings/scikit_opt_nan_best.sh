#!/usr/bin/env bash
# In scikit-opt a diverged member is the best of a genetic algorithm and of differential evolution
#
# Version: scikit-opt 0.6.6, numpy 2.4.6
# Belief: The best of a run that minimises is its least value.
# Seen: With NaN for x[0] >= 1 the returned best of GA and DE is NaN for each of three seeds: `argmin` of a generation names a NaN.
#   Particle swarms compare with `<` and end with a number.
# Means: A tuned setting is one that diverged, and a comparison of the three methods is about NaN. Give a large finite number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scikit-opt==0.6.6 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from sko.DE import DE
from sko.GA import GA
from sko.PSO import PSO

fails = lambda x: float(np.sum(np.square(x))) if x[0] < 1 else float("nan")
box = {"func": fails, "n_dim": 4, "max_iter": 30, "lb": [-5] * 4, "ub": [5] * 4}
best = {"GA": [], "DE": [], "PSO": []}
for seed in range(3):
    np.random.seed(seed)
    best["GA"].append(float(GA(size_pop=20, **box).run()[1][0]))
    np.random.seed(seed)
    best["DE"].append(float(DE(size_pop=20, **box).run()[1][0]))
    np.random.seed(seed)
    swarm = PSO(pop=20, **box)
    swarm.run()
    best["PSO"].append(float(np.ravel(swarm.gbest_y)[0]))
print(best)
raise SystemExit(not (np.isnan(best["GA"] + best["DE"]).all() and np.isfinite(best["PSO"]).all()))
EOF
