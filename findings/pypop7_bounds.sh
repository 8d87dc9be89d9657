#!/usr/bin/env bash
# PyPop7's CMA-ES searches outside of the boundaries that the problem names
#
# Version: pypop7 0.0.82, numpy 2.4.6, scipy 1.17.1
# Belief: A problem with lower_boundary and upper_boundary is searched between them, or a candidate is clipped to them.
# Seen: For a parabola around 4 and boundaries of -1 and 1 nearly all candidates lie outside, and the best point is 4: the
#   boundaries say where the first mean is drawn.
# Means: An environment's limits or a rate below zero are no limits here, and another library that does keep a box is compared
#   on an easier problem. Clip in the fitness, or reflect, and say so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pypop7==0.0.82 numpy==2.4.6 scipy==1.17.1
cat >"$folder/program.py" <<'EOF'
import numpy as np
from pypop7.optimizers.es.cmaes import CMAES
from pypop7.optimizers.es.res import RES
from pypop7.optimizers.nes.snes import SNES

outside, counted = {}, []


def fitness(x):
    counted.append(bool((np.abs(x) > 1).any()))
    return float(np.sum((x - 4) ** 2))


problem = {"fitness_function": fitness, "ndim_problem": 5, "lower_boundary": -np.ones(5), "upper_boundary": np.ones(5)}
for method in (CMAES, SNES, RES):
    counted.clear()
    result = method(problem, {"max_function_evaluations": 2000, "seed_rng": 1, "sigma": 0.5, "verbose": 0}).optimize()
    best, share = result["best_so_far_x"], float(np.mean(counted))
    outside[method.__name__] = share, float(np.abs(best).max())
    print(f"{method.__name__}: {share:.0%} of {len(counted)} candidates outside of [-1, 1], best", best.round(2))
raise SystemExit(not all(share > 0.5 and far > 1.5 for share, far in outside.values()))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
