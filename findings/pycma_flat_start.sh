#!/usr/bin/env bash
# On a plateau pycma ends as converged after one generation
#
# Version: cma 4.5.0, numpy 2.4.6
# Belief: Equal fitnesses in the first generation (a sparse reward, an accuracy at chance) are tolerated; the option
#   `tolflatfitness` says for how many generations.
# Seen: After the first generation `es.stop()` has `tolfun`, with `tolflatfitness` at 1000 too: equal values are a range below
#   1e-11. So 10 of 2,000 evaluations are used; with `tolfun` and `tolfunhist` at -1 all are.
# Means: The peer of a comparison on a sparse reward has evaluated one population of its budget, and its curve is flat for that
#   reason. Set both to a negative number, and compare evaluations.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import cma


def sparse(x):
    return float(x[0]) * -1 if x[0] > 4 else 0.0


def evaluations(**options):
    options = {"seed": 1, "verbose": -9, "popsize": 10, "maxfevals": 2000, "tolflatfitness": 1000, **options}
    es = cma.CMAEvolutionStrategy([0.0] * 5, 0.5, options)
    while not es.stop():
        members = es.ask()
        es.tell(members, [sparse(x) for x in members])
    return es.result.evaluations, dict(es.stop()), es.result.fbest


plain, negative = evaluations(), evaluations(tolfun=-1, tolfunhist=-1)
print(f"of 2000 evaluations: {plain[0]}, stopped by {plain[1]}, best {plain[2]}")
print(f"with negative tolerances: {negative[0]}, stopped by {negative[1]}, best {negative[2]:.3g}")
raise SystemExit(not (plain[0] == 10 and "tolfun" in plain[1] and negative[0] > 100))
EOF
