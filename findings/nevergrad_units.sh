#!/usr/bin/env bash
# nevergrad's CMA begins with half the sigma of its neighbours, and losses above 5e20 are equal
#
# Version: nevergrad 1.0.12, numpy 2.4.6
# Belief: On one parametrization (standard deviation 1) every optimizer's first draws have a deviation of 1, and a loss is a
#   float64.
# Seen: The first draws of CMA have 0.46 in 20 dimensions, where DE, PSO, TBPSA and DiagonalCMA have about 1. Losses above
#   5e20, infinity and NaN are cut to 5e20 with a warning, so that they tie.
# Means: A comparison at 'equal sigma' gives CMA another start; and large losses (squares of diverged outputs) are all one, so
#   that the optimizer wanders. Set sigma per optimizer, take the logarithm of large losses.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nevergrad==1.0.12 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import warnings

import nevergrad
import numpy as np

warnings.simplefilter("ignore")


def made(name):
    parameter = nevergrad.p.Array(shape=(20,))
    parameter.random_state.seed(1)
    return nevergrad.optimizers.registry[name](parameter, budget=1000)


spread = {}
for name in ("CMA", "DiagonalCMA", "DE", "PSO", "TBPSA"):
    optimizer = made(name)
    spread[name] = np.std([optimizer.ask().value for _ in range(20)])
print("deviation of first draws:", {name: round(float(value), 2) for name, value in spread.items()})
optimizer = made("CMA")
told = []
for loss in (1e22, 2e22, float("nan")):
    candidate = optimizer.ask()
    optimizer.tell(candidate, loss)
    told.append(candidate.loss)
print("losses 1e22, 2e22 and NaN are kept as", told)
others = [value for name, value in spread.items() if name != "CMA"]
raise SystemExit(not (0.4 < spread["CMA"] < 0.55 and min(others) > 0.9 and told == [5e20] * 3))
EOF
