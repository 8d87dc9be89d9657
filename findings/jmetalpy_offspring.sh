#!/usr/bin/env bash
# jMetalPy's evolution strategy makes 10 offspring for mu=10 and lambda=15, counts 15, and so selects nothing
#
# Version: jmetalpy 1.9.0, numpy 2.4.6
# Belief: `EvolutionStrategy(mu=10, lambda_=15, elitist=False)` makes 15 offspring in a generation, of which the 10 best are the parents.
# Seen: Each parent has int(15 / 10) = 1 offspring, so that all 10 survive and the search is a random walk: 23 on a sphere of five dimensions,
#   where lambda=70 has 0.2 or less in the same budget. The counter goes on by 15, so a budget of 1,000 evaluations ends after 670. With mu=4
#   and lambda=10 804 are made of 1,004.
# Means: A comparison at equal budgets is not one, and the choice of lambda may switch selection off. Let lambda be a multiple of mu.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jmetalpy==1.9.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import random

import numpy as np
from jmetal.algorithm.singleobjective.evolution_strategy import EvolutionStrategy
from jmetal.core.problem import FloatProblem
from jmetal.operator.mutation import PolynomialMutation
from jmetal.util.termination_criterion import StoppingByEvaluations


class Sphere(FloatProblem):
    """Sphere around 1 in five dimensions, which counts its calls."""

    def __init__(self):
        super().__init__()
        self.lower_bound, self.upper_bound, self.calls = [-5.0] * 5, [5.0] * 5, 0

    def number_of_objectives(self):
        return 1

    def number_of_constraints(self):
        return 0

    def number_of_variables(self):
        return 5

    def name(self):
        return "sphere"

    def evaluate(self, solution):
        self.calls += 1
        solution.objectives[0] = float(sum((x - 1) ** 2 for x in solution.variables))
        return solution


seen = {}
for parents, offspring in ((10, 15), (10, 70), (4, 10), (10, 10)):
    values = []
    for seed in range(5):
        random.seed(seed)
        np.random.seed(seed)
        problem = Sphere()
        search = EvolutionStrategy(problem, parents, offspring, False, PolynomialMutation(0.2, 20.0), StoppingByEvaluations(1000))
        search.run()
        values.append(search.result().objectives[0])
    seen[parents, offspring] = problem.calls, search.evaluations, float(np.median(values))
    print(f"mu={parents}, lambda={offspring}: {problem.calls} evaluations, counted {search.evaluations}, median result {np.median(values):.3f}")
holds = seen[10, 15][:2] == (670, 1000) and seen[4, 10][:2] == (804, 1004) and seen[10, 70][0] == seen[10, 70][1]
raise SystemExit(not (holds and seen[10, 15][2] > 10 * seen[10, 70][2]))
PROGRAM
