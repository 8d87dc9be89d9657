#!/usr/bin/env bash
# In NiaPy's evolution strategies every offspring has a step of 1, whatever its parent's and whatever the box
#
# Version: niapy 2.7.1, numpy 2.4.6
# Belief: Steps of the (mu+lambda) and (mu,lambda) strategies are adapted by success, and begin in proportion to the box, or are inherited.
# Seen: The rule of a fifth changes the steps of parents, and each new member is made with the default of 1. In a box of +-0.05, which may be
#   that of weights, 82 to 96 % of all coordinates are put onto the border, and the result of 4,000 evaluations is a fourth of the
#   squared half width or more; in one of +-5,000 the population stays where it began. The (1+1) strategy of the same file solves all three.
# Means: A comparison with these two is one of random steps of size 1. Scale the variables to some units around 0, or use the (1+1) strategy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet niapy==2.7.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from niapy.algorithms.basic import EvolutionStrategy1p1, EvolutionStrategyML, EvolutionStrategyMpL
from niapy.problems import Problem
from niapy.task import Task


class Sphere(Problem):
    """Sphere in five dimensions around a fifth of the half width."""

    def __init__(self, half):
        super().__init__(5, -half, half)
        self.points = []

    def _evaluate(self, x):
        self.points.append(np.array(x))
        return float(np.sum((x - self.upper / 5) ** 2))


seen = {}
for half in (0.05, 5.0, 5000.0):
    for kind, settings in ((EvolutionStrategy1p1, {}), (EvolutionStrategyMpL, {"mu": 5, "lam": 35}), (EvolutionStrategyML, {"mu": 5, "lam": 35})):
        results, border, spread = [], [], []
        for seed in (1, 2, 3):
            problem = Sphere(half)
            results.append(kind(seed=seed, **settings).run(Task(problem, max_evals=4000))[1] / half**2)
            points = np.array(problem.points)
            border.append(float((np.abs(points) >= half).mean()))
            spread.append(float(points[-200:].std(0).mean()))
        seen[half, kind] = max(results), min(results), min(border)
        print(f"box +-{half}, {kind.Name[-1]}: result {min(results):.2g} to {max(results):.2g} of the squared half width, {min(border):.0%} of the "
              f"coordinates on the border, spread at the end {np.median(spread):.2g}")
several = (EvolutionStrategyMpL, EvolutionStrategyML)
solved = all(seen[half, EvolutionStrategy1p1][0] < 1e-12 for half in (0.05, 5.0, 5000.0))
narrow = all(seen[0.05, kind][1] > 0.05 and seen[0.05, kind][2] > 0.7 for kind in several)
wide = all(seen[5000.0, kind][1] > 0.05 and seen[5000.0, kind][2] < 0.01 for kind in several)
raise SystemExit(not (solved and narrow and wide))
PROGRAM
