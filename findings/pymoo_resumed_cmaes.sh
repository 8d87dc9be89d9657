#!/usr/bin/env bash
# A copy of pymoo's CMA-ES ends one generation later, as if it had converged
#
# Version: pymoo 0.6.2, cma 4.5.0, dill 0.4.1, numpy 2.4.6
# Belief: An algorithm that is copied or pickled in the middle of a run goes on as without the pause; pymoo's page on checkpoints
#   says how.
# Seen: GA, DE, PSO and ES do, to the last bit. CMAES loses its state in the copy, the error is caught, and the run ends after one
#   generation of the 20 that were left, with `has_next()` False, no message and the result of that generation. `minimize`, which
#   copies what it is given, ends so too.
# Means: A resumed CMA-ES loses a comparison by its budget, and looks as if it had converged. Count evaluations, and begin again
#   from `opt` where the run was cut.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pymoo==0.6.2 cma==4.5.0 dill==0.4.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import copy

import dill
import numpy as np
from pymoo.algorithms.soo.nonconvex.cmaes import CMAES
from pymoo.algorithms.soo.nonconvex.de import DE
from pymoo.algorithms.soo.nonconvex.es import ES
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.algorithms.soo.nonconvex.pso import PSO
from pymoo.optimize import minimize
from pymoo.problems import get_problem

kinds = {
    "GA": lambda: GA(pop_size=10),
    "DE": lambda: DE(pop_size=10),
    "PSO": lambda: PSO(pop_size=10),
    "ES": lambda: ES(n_offsprings=20, pop_size=5),
    "CMAES": lambda: CMAES(x0=np.full(5, 0.9), sigma=0.1),
}


def half(kind):
    algorithm = kinds[kind]()
    algorithm.setup(get_problem("sphere", n_var=5), termination=("n_gen", 30), seed=1)
    while algorithm.n_gen is None or algorithm.n_gen <= 10:
        algorithm.next()
    return algorithm


def end(algorithm):
    while algorithm.has_next():
        algorithm.next()
    return algorithm.n_gen - 1, float(algorithm.result().F[0])


holds = True
for kind in kinds:
    plain, copied, pickled = end(half(kind)), end(copy.deepcopy(half(kind))), end(dill.loads(dill.dumps(half(kind))))
    print(f"{kind}: generations and best {plain}, of a copy {copied}, pickled {pickled}")
    holds &= (plain == copied == pickled) if kind != "CMAES" else plain[0] == 30 and copied[0] == pickled[0] == 11 and copied[1] > 10 * plain[1]
result = minimize(get_problem("sphere", n_var=5), half("CMAES"))
print("by minimize:", result.algorithm.n_gen - 1, "generations,", result.message if hasattr(result, "message") else "no message")
raise SystemExit(not (holds and result.algorithm.n_gen == 12))
EOF
