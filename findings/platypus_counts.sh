#!/usr/bin/env bash
# Platypus counts evaluations that never happen: a third of those of its evolution strategy
#
# Version: Platypus-Opt 1.4.1
# Belief: `run(1000)` calls the objective 1,000 times, and `nfe` is the number of calls.
# Seen: A child that no mutation touched is its parent with the parent's objective, and is counted as evaluated. In 4 dimensions the
#   evolution strategy calls the objective 7 times of 10, the genetic algorithm 98 times of 100, CMA-ES each time. `run(10)` is a
#   population of 100.
# Means: At one budget algorithms have had other numbers of evaluations, and under noise a third of the members is not tried again. Count
#   calls in the objective.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet Platypus-Opt==1.4.1
"$folder/venv/bin/python" - <<'EOF'
import random

from platypus import CMAES, EvolutionaryStrategy, GeneticAlgorithm, Problem, Real


def counts(kind, asked):
    random.seed(1)
    calls = []
    problem = Problem(4, 1)
    problem.types[:] = Real(-5, 5)
    problem.function = lambda x: [calls.append(0) or sum(value * value for value in x)]
    algorithm = kind(problem)
    algorithm.run(asked)
    return algorithm.nfe, len(calls)


seen = {kind.__name__: counts(kind, 1000) for kind in (EvolutionaryStrategy, GeneticAlgorithm, CMAES)}
few = counts(EvolutionaryStrategy, 10)
print("nfe and calls for run(1000):", seen, "| for run(10):", few)
strategy, genetic, cma = (seen[name] for name in ("EvolutionaryStrategy", "GeneticAlgorithm", "CMAES"))
counted = all(nfe == 1000 for nfe, _ in seen.values())
raise SystemExit(not (counted and strategy[1] < 800 and 950 < genetic[1] < 1000 and cma[1] == 1000 and few[0] == 100))
EOF
