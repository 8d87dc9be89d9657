#!/usr/bin/env bash
# The ends of an integer's range are half as likely in scikit-optimize's first points, and its result under noise is the luckiest one
#
# Version: scikit-optimize 0.10.2, scikit-learn 1.9.1, numpy 2.4.6
# Belief: Of `Integer(0, 3)` each value has a quarter of the first points, as `Integer(0, 3).rvs` draws them.
# Seen: The dimension itself draws all four alike, and an optimizer, which normalises it, draws 0 and 3 in a sixth each, as the interval is
#   rounded to the nearest integer. Random, Sobol, Halton and Latin hypercube starts are so, and a grid has an eighth. Under noise of 1,
#   `gp_minimize` with `noise="gaussian"` returns the point with the least noisy value; that value is below 0 where no point has a loss below 0.
# Means: A search over 1 to 3 layers begins with half of its points at 2. Compare with tuners that draw integers alike with `Categorical([0, 1,
#   2, 3])` in its place, and score a result again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scikit-optimize==0.10.2 scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from skopt import Optimizer, gp_minimize
from skopt.space import Integer

drawn = np.bincount(Integer(0, 3).rvs(4000, random_state=1), minlength=4) / 4000
print("the dimension itself:", drawn)
holds = drawn.min() > 0.22
for start in ("random", "sobol", "halton", "lhs", "grid"):
    optimizer, values = Optimizer([Integer(0, 3), (0.0, 1.0)], random_state=1, n_initial_points=256, initial_point_generator=start), []
    for _ in range(256):
        point = optimizer.ask()
        values.append(int(point[0]))
        optimizer.tell(point, 0.0, fit=False)
    share = np.bincount(values, minlength=4) / 256
    print(f"{start}: {share.round(3)}")
    holds &= share[[0, 3]].max() < 0.21 and share[[1, 2]].min() > 0.28
noise, seen = np.random.default_rng(0), []


def loss(point):
    seen.append(sum(x * x for x in point) + noise.normal())
    return seen[-1]


result = gp_minimize(loss, [(-2.0, 2.0)] * 2, n_calls=20, random_state=1, noise="gaussian")
print(f"under noise: {result.fun:.3f}, the least of {len(seen)}; without noise this point has {sum(x * x for x in result.x):.3f}")
raise SystemExit(not (holds and result.fun == min(seen) < 0))
PROGRAM
