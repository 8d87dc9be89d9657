#!/usr/bin/env bash
# Five of stochopy's six optimizers leave the bounds that they are given, and return a point beyond
#
# Version: stochopy 2.3.0, numpy 2.4.6
# Belief: `minimize(f, bounds)` evaluates points within the bounds; SciPy's differential evolution, of the same signature, does.
# Seen: By default (`constraints=None`) bounds are where the start is drawn. With the minimum at 7 in a box of -5 to 5 CMA-ES, VD-CMA, PSO and CPSO
#   return 7, DE leaves the box too, and CMA-ES and PSO ask for points beyond 15. `na` stays inside. With `constraints="Penalize"` (CMA-ES, VD-CMA),
#   "Shrink" (PSO, CPSO) or "Random" (DE) all evaluated points are inside.
# Means: A simulator gets parameters that it was not made for, and a comparison with an optimizer that keeps the box compares two problems.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet stochopy==2.3.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from stochopy.optimize import minimize

KEPT = {"cmaes": "Penalize", "vdcma": "Penalize", "pso": "Shrink", "cpso": "Shrink", "de": "Random", "na": None}


def search(method, constraints):
    asked = []

    def loss(x):
        asked.append(np.array(x))
        return float(((x - 7) ** 2).sum())

    options = {"maxiter": 60, "popsize": 10, "seed": 1} | ({"constraints": constraints} if constraints else {})
    result = minimize(loss, [[-5.0, 5.0]] * 4, method=method, options=options)
    return np.abs(asked).max(), np.abs(result.x).max()


holds = True
for method, constraints in KEPT.items():
    far, end = search(method, None)
    print(f"{method}: farthest point {far:.3g}, returned {end:.3g}", end="")
    holds &= far <= 5 if method == "na" else far > 7 and end > 5
    if constraints:
        far, end = search(method, constraints)
        print(f"; with constraints={constraints} {far:.3g} and {end:.3g}", end="")
        holds &= far <= 5 + 1e-9
    print()
raise SystemExit(not holds)
PROGRAM
