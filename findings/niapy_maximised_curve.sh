#!/usr/bin/env bash
# A maximised curve of NiaPy is the fitness by iterations and its negative by evaluations, which ends at the last improvement
#
# Version: niapy 2.7.1, numpy 2.4.6
# Belief: `convergence_data("iters")` and `convergence_data("evals")` are one curve over two axes.
# Seen: Where a task is maximised the values over evaluations have the other sign: a run whose fitness rises to 2.8 has a curve that falls to -2.8,
#   and the other one rises. It ends with the last improvement in place of the budget, so a run that stalls early has a short curve.
# Means: Runs that are averaged over evaluations, or compared with minimised ones, have the wrong sign and other lengths. Multiply by
#   `task.optimization_type.value`, and repeat the last value up to the budget.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet niapy==2.7.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
from niapy.algorithms.basic import DifferentialEvolution, ParticleSwarmOptimization
from niapy.problems import Problem
from niapy.task import OptimizationType, Task


class Hill(Problem):
    """Return of a policy, at most 3."""

    def __init__(self):
        super().__init__(5, -5, 5)

    def _evaluate(self, x):
        return 3.0 - float(sum((value - 1) ** 2 for value in x))


holds = []
for kind in (DifferentialEvolution, ParticleSwarmOptimization):
    task = Task(Hill(), max_evals=1000, optimization_type=OptimizationType.MAXIMIZATION)
    _, best = kind(population_size=20, seed=1).run(task)
    _, by_iterations = task.convergence_data("iters")
    steps, by_evaluations = task.convergence_data("evals")
    print(f"{kind.__name__}: best {best:.4f}, last value by iterations {by_iterations[-1]:.4f}, by evaluations {by_evaluations[-1]:.4f} at "
          f"{steps[-1]} of {task.evals} evaluations")
    holds.append(by_iterations[-1] == best == -by_evaluations[-1] and by_evaluations[0] > by_evaluations[-1] and steps[-1] < task.evals == 1000)
raise SystemExit(not all(holds))
PROGRAM
