#!/usr/bin/env bash
# noisyopt's compass search evaluates 19 points 570 times without noise, and has no end with it
#
# Version: noisyopt 0.2.3, SciPy 1.17.1, numpy 2.4.6
# Belief: A pattern search for noisy functions evaluates a point again where two points cannot be told apart, and stops at its tolerance.
# Seen: `minimizeCompass` begins with 30 evaluations of each point, whether there is noise or not. The number is doubled until neighbours at the
#   last step differ significantly or are equal to 1e-15: for two parameters, from 0 to the minimum at 1, it takes 570 evaluations without noise,
#   12,000 and more with a deviation of 0.1, and with 1 it has not ended after 200,000. There is no option for a number of evaluations or
#   iterations. `nfev` is right.
# Means: A budget that is the same for all is not kept by this one. Give `errorcontrol=False` and average in the fitness, or raise from `func` at
#   the budget.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet noisyopt==0.2.3 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import inspect

import numpy as np
from noisyopt import minimizeCompass


class Budget(Exception):
    pass


def search(noise, **options):
    np.random.seed(1)
    draw, points = np.random.default_rng(1), []

    def loss(x):
        points.append(tuple(x))
        if len(points) == 200_000:
            raise Budget
        return float(((x - 1) ** 2).sum() + noise * draw.normal())

    try:
        result = minimizeCompass(loss, x0=[0.0, 0.0], deltatol=0.1, paired=False, **options)
        end = f"ended at {np.round(result.x, 3)}, nfev {result.nfev}"
    except Budget:
        end = "not ended"
    print(f"noise {noise} {options or ''}: {len(points)} evaluations of {len(set(points))} points, {end}")
    return len(points), len(set(points))


none, small, large = search(0), search(0.1), search(1)
plain = search(0, errorcontrol=False)
limits = [name for name in inspect.signature(minimizeCompass).parameters if "max" in name or "nit" in name.lower()]
print("options that could limit it:", limits)
raise SystemExit(not (none[0] == 30 * none[1] and small[0] > 5_000 and large[0] == 200_000 and plain[0] < 100))
PROGRAM
