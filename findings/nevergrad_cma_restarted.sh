#!/usr/bin/env bash
# Once nevergrad's CMA has converged it begins again at its start, and recommends the best point of the new start alone
#
# Version: nevergrad 1.0.12, cma 4.5.0, numpy 2.4.6
# Belief: `recommend()` of CMA is the best point that was told, so it never gets worse with more evaluations.
# Seen: On a sphere of two dimensions the best loss is near 1e-17 after some 500 evaluations. There pycma stops, a new CMA-ES begins at the initial point, and
#   the recommendation is the best point of the new one: its loss goes up to 2 to 5 and falls again, some seven times in 3,000 evaluations. In CMA, OldCMA,
#   CMAstd and DiagonalCMA nearly all recommendations after the first end are more than ten times worse than the best point, also the one at the end of the budget.
# Means: A larger budget gives a worse result, by chance of where in a restart it ends, and `minimize()` returns that one. Keep the best of what was told.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nevergrad==1.0.12 cma==4.5.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import nevergrad as ng
import numpy as np

BEST, holds = np.array([1.0, -2.0]), True
for name in ("CMA", "OldCMA", "CMAstd", "DiagonalCMA", "DE"):
    parameters = ng.p.Array(shape=(2,))
    parameters.random_state.seed(1)
    search, best, recommended = ng.optimizers.registry[name](parameters, budget=1500), np.inf, []
    for count in range(1, 1501):
        candidate = search.ask()
        loss = float(((candidate.value - BEST) ** 2).sum())
        search.tell(candidate, loss)
        best = min(best, loss)
        if count % 25 == 0:
            recommended.append((count, best, float(((search.recommend().value - BEST) ** 2).sum())))
    worse = [(count, value) for count, lowest, value in recommended if value > 10 * lowest]
    late = [value for count, _, value in recommended if count > 600]
    print(f"{name}: best {best:.1g}; recommended after 400, 700, 1,100, 1,500:", *(f"{recommended[k // 25 - 1][2]:.1g}" for k in (400, 700, 1100, 1500)), end="; ")
    print(f"{len(worse)} of {len(recommended)} worse than the best, the worst after 600 is {max(late):.2g}")
    holds &= (not worse) if name == "DE" else best < 1e-14 and len(worse) > 25 and max(late) > 0.5
raise SystemExit(not holds)
PROGRAM
