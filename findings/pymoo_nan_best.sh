#!/usr/bin/env bash
# In pymoo a diverged member is the result of PSO, ES and pattern search, where GA and DE leave it out
#
# Version: pymoo 0.6.2, numpy 2.4.6
# Belief: What `minimize` returns is the least objective, whichever algorithm is named.
# Seen: With NaN for x[0] >= 1 the result of PSO, ES and PatternSearch is NaN for each of three seeds; GA, DE and Nelder-Mead return
#   numbers.
# Means: In a table of pymoo's algorithms three have failed for no reason of their own. Give a large finite number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pymoo==0.6.2 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from pymoo.algorithms.soo.nonconvex.de import DE
from pymoo.algorithms.soo.nonconvex.es import ES
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.algorithms.soo.nonconvex.nelder import NelderMead
from pymoo.algorithms.soo.nonconvex.pattern import PatternSearch
from pymoo.algorithms.soo.nonconvex.pso import PSO
from pymoo.core.problem import ElementwiseProblem
from pymoo.optimize import minimize


class Fails(ElementwiseProblem):
    def __init__(self):
        super().__init__(n_var=4, n_obj=1, xl=-5, xu=5)

    def _evaluate(self, x, out, *args, **kwargs):
        out["F"] = float(np.sum(np.square(x))) if x[0] < 1 else float("nan")


lost = {}
for kind in (PSO, ES, PatternSearch, GA, DE, NelderMead):
    values = [float(minimize(Fails(), kind(), ("n_eval", 600), seed=seed).F[0]) for seed in range(3)]
    print(kind.__name__, values)
    lost[kind.__name__] = int(np.isnan(values).sum())
raise SystemExit(lost != {"PSO": 3, "ES": 3, "PatternSearch": 3, "GA": 0, "DE": 0, "NelderMead": 0})
EOF
