#!/usr/bin/env bash
# inspyred's evolution strategy returns candidates twice as long as those that it evaluates
#
# Version: inspyred 1.0.3
# Belief: The candidate of the best individual is the vector whose fitness it has.
# Seen: ES appends the step sizes to each candidate. The evaluator gets 3 numbers, max(population).candidate has 6, of which
#   the last 3 are step sizes; with GA and DEA of the same package it has 3.
# Means: A fitness that is computed again from the returned candidate is another one (a sum or a norm takes step sizes too,
#   a network's vector does not fit). Cut the candidate to the evaluated length.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet inspyred==1.0.3
"$folder/venv/bin/python" -W ignore - <<'EOF'
import random

from inspyred import ec

seen = set()


def generate(random, args):
    return [random.uniform(-5, 5) for _ in range(3)]


def evaluate(candidates, args):
    seen.update(len(candidate) for candidate in candidates)
    return [sum(x * x for x in candidate) for candidate in candidates]


lengths = {}
for kind in (ec.ES, ec.GA, ec.DEA):
    strategy = kind(random.Random(1))
    strategy.terminator = ec.terminators.evaluation_termination
    population = strategy.evolve(
        generate, evaluate, pop_size=10, bounder=ec.Bounder(-5, 5), maximize=False, max_evaluations=500, num_selected=10
    )
    best = max(population)
    lengths[kind.__name__] = len(best.candidate)
    print(f"{kind.__name__}: evaluated {sorted(seen)}, returned {len(best.candidate)}, fitness {best.fitness:.2e},"
          f" of the returned one {sum(x * x for x in best.candidate):.2e}")
raise SystemExit(not (seen == {3} and lengths == {"ES": 6, "GA": 3, "DEA": 3}))
EOF
