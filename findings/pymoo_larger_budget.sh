#!/usr/bin/env bash
# pymoo's minimize takes a larger budget for an algorithm that has run, and runs nothing
#
# Version: pymoo 0.6.2, numpy 2.4.6
# Belief: `minimize(problem, result.algorithm, ("n_gen", 12), seed=2)` goes on from the fifth to the twelfth generation, or begins
#   again with the new seed and budget.
# Seen: An algorithm that was set up before keeps its old budget and seed: the call evaluates nothing and returns the result of five
#   generations. With `("n_eval", 1000)` too. An algorithm that was given as an object and not run begins as it should, since
#   `minimize` copies it.
# Means: A sweep over budgets or seeds that hands on `result.algorithm` has one result many times. Set `algorithm.termination`
#   and look at `algorithm.evaluator.n_eval`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pymoo==0.6.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
from pymoo.algorithms.soo.nonconvex.de import DE
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.algorithms.soo.nonconvex.pso import PSO
from pymoo.optimize import minimize
from pymoo.problems import get_problem

holds = True
for kind in (GA, DE, PSO):
    problem = get_problem("sphere", n_var=5)
    first = minimize(problem, kind(pop_size=10), ("n_gen", 5), seed=1)
    longer = minimize(problem, first.algorithm, ("n_gen", 12), seed=1)
    more = minimize(problem, first.algorithm, ("n_eval", 1000), seed=2)
    right = minimize(problem, kind(pop_size=10), ("n_gen", 12), seed=1)
    seen = [(run.algorithm.evaluator.n_eval, float(run.F[0])) for run in (first, longer, more, right)]
    print(f"{kind.__name__}: evaluations and best of 5 generations {seen[0]}, asked for 12 {seen[1]}, for 1,000 evaluations {seen[2]}, 12 at once {seen[3]}")
    holds &= seen[0] == seen[1] == seen[2] and seen[3][0] > 2 * seen[0][0] and seen[3][1] < seen[0][1]
raise SystemExit(not holds)
EOF
