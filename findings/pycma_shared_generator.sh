#!/usr/bin/env bash
# Two instances with seeds of their own change each other's draws
#
# Version: cma 4.5.0, numpy 2.4.6
# Belief: An instance made with `seed` draws the same whatever else the process does.
# Seen: The seed sets numpy's global generator: the second instance sets it anew, and any np.random.seed in the fitness
#   function changes what is asked next.
# Means: Two peers compared in one process, or a fitness that seeds numpy for its episodes, are not the runs that their seeds
#   name; a fitness that seeds alike each time makes generations alike. One process a run.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import cma
import numpy as np


def made(seed):
    return cma.CMAEvolutionStrategy([0.0] * 4, 1.0, {"seed": seed, "verbose": -9})


alone = made(1).ask()
one, _other = made(1), made(2)
print("first population, alone and beside another instance, equal:", beside := np.array_equal(alone, one.ask()))
es = made(1)
es.ask()
np.random.seed(5)
first = es.ask()
np.random.seed(5)
print("two generations after np.random.seed(5) equal:", again := np.array_equal(first, es.ask()))
raise SystemExit(beside or not again)
EOF
