#!/usr/bin/env bash
# In seven optimizers of mealpy the result is worse than the best point that was evaluated: 7.2 where one was 0
#
# Version: mealpy 3.0.2, numpy 2.4.6
# Belief: `solve` returns the best solution that it evaluated.
# Seen: The best is taken from the populations at the end of each generation, and seven optimizers replace members by worse ones in between:
#   DO, EP, HGSO, ABFO, CSO, SHO and AdaptiveEO. On a sphere of five dimensions with 3,000 evaluations their results are up to
#   thousands of times the best value that the function returned.
# Means: Such an optimizer looks worse than it is in a comparison, and a good network is thrown away. Keep the best in the objective itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mealpy==3.0.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import mealpy
import numpy as np

optimizers, lost = mealpy.get_all_optimizers(verbose=False), {}
for name in ("OriginalDO", "OriginalEP", "OriginalHGSO", "ABFO", "OriginalCSO", "OriginalSHO", "AdaptiveEO", "OriginalPSO", "OriginalDE", "BaseGA"):
    worse = []
    for seed in (1, 2, 3):
        values = []

        def sphere(x):
            values.append(float(np.sum((x - 1) ** 2)))
            return values[-1]

        problem = {"obj_func": sphere, "bounds": mealpy.FloatVar(lb=[-5] * 5, ub=[5] * 5), "minmax": "min", "log_to": None}
        result = optimizers[name](epoch=10_000, pop_size=20).solve(problem, termination={"max_fe": 3000}, seed=seed)
        worse.append((result.target.fitness, min(values)))
    lost[name] = sum(fitness > best for fitness, best in worse)
    print(f"{name}: " + ", ".join(f"result {fitness:.3g}, best evaluated {best:.3g}" for fitness, best in worse))
keep = {name for name, count in lost.items() if not count}
raise SystemExit(keep != {"OriginalPSO", "OriginalDE", "BaseGA"})
PROGRAM
