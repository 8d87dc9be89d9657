#!/usr/bin/env bash
# sigma of CMAES is a fraction of the box, and its first generation is not CMA-ES's
#
# Version: pymoo 0.6.2, cma 4.5.0, numpy 2.4.6
# Belief: CMAES(sigma=0.1) samples with a standard deviation of 0.1 in the problem's units, from x0, from the first generation
#   on.
# Seen: In a box of [-500, 500] members are 100 from the mean. Without x0 the first of n_gen generations is 20 points spread
#   over the whole box, with x0 it is x0 alone.
# Means: sigma = 0.1 means ten things in ten peers. Convert before comparing: sigma times the width of the box; and subtract
#   the first generation from counts.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pymoo==0.6.2 cma==4.5.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
from pymoo.algorithms.soo.nonconvex.cmaes import CMAES
from pymoo.core.problem import Problem
from pymoo.optimize import minimize


class Sphere(Problem):
    def __init__(self, bound):
        super().__init__(n_var=40, n_obj=1, xl=np.full(40, -bound), xu=np.full(40, bound))
        self.seen = []

    def _evaluate(self, x, out, *args, **kwargs):
        self.seen.append(np.atleast_2d(x).copy())
        out["F"] = (np.atleast_2d(x) ** 2).sum(1)


spread = {}
for bound in (5.0, 500.0):
    problem = Sphere(bound)
    minimize(problem, CMAES(x0=np.zeros(40), sigma=0.1), ("n_gen", 2), seed=1)
    spread[bound] = problem.seen[1].std()
    counts = [len(x) for x in problem.seen]
    print(f"box of +-{bound:g}, with x0: generations of {counts[:2]}, the second with deviation {spread[bound]:.2f}")
problem = Sphere(5.0)
minimize(problem, CMAES(sigma=0.1), ("n_gen", 2), seed=1)
sizes, first = [len(x) for x in problem.seen], problem.seen[0].std()
print(f"without x0: generations of {sizes[:2]}, the first with deviation {first:.2f}")
raise SystemExit(not (0.8 < spread[5.0] < 1.2 and 80 < spread[500.0] < 120 and sizes[0] == 20 and first > 2))
EOF
