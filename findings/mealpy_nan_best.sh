#!/usr/bin/env bash
# Where mealpy maximises, a NaN is the best solution of all six optimizers tried
#
# Version: mealpy 3.0.3, numpy 1.26.0
# Belief: A NaN loses each comparison, so it never becomes the best.
# Seen: With every seventh fitness NaN, PSO, GA, DE and three evolution strategies (CMA-ES with two of them) return a NaN as
#   the best fitness of a maximum.
# Means: One diverged member is the result of a run that maximises returns. Give a very bad number in place of NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mealpy==3.0.3 numpy==1.26.0 'setuptools<81'
"$folder/venv/bin/python" -W ignore - <<'EOF'
import math

import numpy as np
from mealpy import DE, ES, GA, PSO, FloatVar

KINDS = (PSO.OriginalPSO, GA.BaseGA, DE.OriginalDE, ES.OriginalES, ES.CMA_ES, ES.Simple_CMA_ES)


def best(kind, sense):
    calls = 0

    def fitness(solution):
        nonlocal calls
        calls += 1
        value = float((np.array(solution) ** 2).sum())
        return math.nan if calls % 7 == 0 else -value if sense == "max" else value

    problem = {"obj_func": fitness, "bounds": FloatVar(lb=(-5, -5), ub=(5, 5)), "minmax": sense, "log_to": None}
    return float(kind(epoch=20, pop_size=20).solve(problem, seed=1).target.fitness)


found = {(kind.__name__, sense): best(kind, sense) for kind in KINDS for sense in ("max", "min")}
for (name, sense), value in found.items():
    print(f"{name}: best of a {sense}imum, 0 is possible: {value:.3f}")
raise SystemExit(not all(math.isnan(value) for (_, sense), value in found.items() if sense == "max"))
EOF
