#!/usr/bin/env bash
# SciPy's dual annealing and basin hopping return NaN as a success, and COBYLA 1e30
#
# Version: SciPy 1.17.1, numpy 2.4.6
# Belief: A minimiser that meets NaN in a part of its domain returns the best finite value it evaluated, or says that it failed.
# Seen: Of a sum of squares that is NaN below 0.3 dual annealing returns NaN with success, after it had evaluated 0.094, and basin hopping
#   NaN, from a start with the value 2. Where every value is NaN COBYLA returns 1e30 with success. Nelder-Mead finds 0.09.
# Means: A black-box baseline on a simulator that can diverge loses, or is a row of 1e30, with no error. Return a large finite number,
#   and keep the best evaluation yourself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from scipy import optimize


def search(run, never=False):
    values = []

    def fitness(x):
        values.append(np.nan if never or x[0] < 0.3 else float((x**2).sum()))
        return values[-1]

    result = run(fitness)
    finite = [value for value in values if value == value]
    return float(result.fun), getattr(result, "success", None), min(finite, default=None)


start = [1.0, 1.0]
seen = {
    "dual annealing": search(lambda f: optimize.dual_annealing(f, [(-1, 1)] * 2, rng=0, maxiter=20)),
    "basin hopping": search(lambda f: optimize.basinhopping(f, start, rng=0, niter=20)),
    "Nelder-Mead": search(lambda f: optimize.minimize(f, start, method="Nelder-Mead")),
    "COBYLA, all NaN": search(lambda f: optimize.minimize(f, start, method="COBYLA"), never=True),
    "Nelder-Mead, all NaN": search(lambda f: optimize.minimize(f, start, method="Nelder-Mead"), never=True),
}
for name, (value, success, best) in seen.items():
    print(f"{name}: value {value:.3g}, success {success}, best finite evaluation {best}")
annealing, hopping, simplex, cobyla, _ = seen.values()
holds = np.isnan(annealing[0]) and annealing[1] and annealing[2] < 0.2 and np.isnan(hopping[0]) and hopping[2] <= 2
raise SystemExit(not (holds and abs(simplex[0] - 0.09) < 0.001 and cobyla[:2] == (1e30, True)))
EOF
