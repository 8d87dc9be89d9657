#!/usr/bin/env bash
# A file in the folder stops nevergrad's and pymoo's CMA-ES, with no word
#
# Version: cma 4.5.0, nevergrad 1.0.12, pymoo 0.6.2, numpy 2.4.6
# Belief: What an optimizer does is decided by its arguments and its seed.
# Seen: pycma reads options from `cma_signals.in` of the current folder in every generation. With `{'maxfevals': 50}` in it, which was
#   meant for one run, nevergrad's `CMA` evaluates its 400 points, and ends a hundred thousand times worse; pymoo's `CMAES` ends
#   after 58 evaluations of 400. `{'maxstd': 0.01}` holds for both too. Neither says so.
# Means: Runs of one folder share this file, and one that was left behind decides later comparisons. Run each trial in a folder
#   of its own, or set `signals_filename` to None where pycma's options can be reached.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 nevergrad==1.0.12 pymoo==0.6.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>"$folder/errors" <<'PROGRAM'
from pathlib import Path

import nevergrad
import numpy as np
from pymoo.algorithms.soo.nonconvex.cmaes import CMAES
from pymoo.optimize import minimize
from pymoo.problems import get_problem


def by_nevergrad():
    optimizer = nevergrad.optimizers.CMA(parametrization=nevergrad.p.Array(init=np.ones(5)), budget=400)
    optimizer.parametrization.random_state.seed(1)
    losses = []
    optimizer.minimize(lambda x: losses.append(float((x**2).sum())) or losses[-1])
    return len(losses), min(losses)


def by_pymoo():
    result = minimize(get_problem("sphere", n_var=5), CMAES(x0=np.full(5, 0.9), sigma=0.1), ("n_eval", 400), seed=1)
    return result.algorithm.evaluator.n_eval, float(result.F[0])


seen = {}
for signals in ("", "{'maxfevals': 50}", "{'maxstd': 0.01}"):
    if signals:
        Path("cma_signals.in").write_text(signals)
    seen[signals] = by_nevergrad(), by_pymoo()
    print(f"{signals or 'no file'}: evaluations and best, nevergrad {seen[signals][0]}, pymoo {seen[signals][1]}")
plain, few, small = seen.values()
holds = few[0][0] == plain[0][0] and few[0][1] > 1e3 * plain[0][1] and few[1][0] < 100 < plain[1][0]
holds &= small[0][1] > 1e3 * plain[0][1] and small[1][1] > 10 * plain[1][1]
raise SystemExit(not holds)
PROGRAM
echo "what was said: $(grep -c -i signals "$folder/errors" || true) lines"
[ "$(grep -c -i signals "$folder/errors")" = 0 ]
