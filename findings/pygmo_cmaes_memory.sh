#!/usr/bin/env bash
# Fifty generations twice are not a hundred: each evolve begins anew at sigma0
#
# Version: pygmo 2.20.0
# Belief: An algorithm object goes on where it stood: evolve(50 generations) twice is evolve(100).
# Seen: By default (memory=False) step size and covariance are those of the start at each call; with memory=True the two are
#   equal to the last bit.
# Means: A peer that is stepped by its caller, generation by generation to draw a curve, is not the algorithm that runs in one
#   call.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pygmo==2.20.0
"$folder/venv/bin/python" - <<'EOF'
import pygmo

best = {}
for memory in (False, True):
    for calls in (1, 2):
        population = pygmo.population(pygmo.problem(pygmo.rosenbrock(5)), 20, seed=1)
        algorithm = pygmo.algorithm(pygmo.cmaes(gen=100 // calls, sigma0=0.5, ftol=0, xtol=0, memory=memory, seed=1))
        for _ in range(calls):
            population = algorithm.evolve(population)
        best[memory, calls] = float(population.champion_f[0])
        print(f"memory={memory}: {calls} x {100 // calls} generations reach {best[memory, calls]:.6f}")
raise SystemExit(best[False, 1] == best[False, 2] or best[True, 1] != best[True, 2])
EOF
