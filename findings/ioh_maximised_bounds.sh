#!/usr/bin/env bash
# In a maximised problem of IOHexperimenter the penalty for leaving the bounds is a reward
#
# Version: ioh 0.4.2, numpy 2.4.6
# Belief: After `enforce_bounds` a point outside of the bounds is worse than it would be without.
# Seen: The squared distance from the box is added to the value, whichever direction the problem has. A sum of two numbers, at most 10 within
#   +-5, is 18 at (9, 9), and 50 with the penalty; with a weight of 1,000 it is 32,018, and `state.current_best` is that point. A hard limit
#   returns the distance in place of the value, 32, which wins too. Of minimised problems both are as they should be.
# Means: A maximised search walks out of its box, the heavier the penalty the faster, and logs its best there. Wrap the negative of the function and
#   minimise, or clip.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ioh==0.4.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import random

import ioh


def problem(kind, weight, how):
    wrapped = ioh.wrap_problem(lambda x: float(sum(x)), f"sum_{kind.name}_{weight:g}_{how.name}", ioh.ProblemClass.REAL, 2, 1,
                               optimization_type=kind, lb=-5, ub=5)
    wrapped.enforce_bounds(weight, how)
    return wrapped


SOFT, HARD = ioh.ConstraintEnforcement.SOFT, ioh.ConstraintEnforcement.HARD
seen = {}
for kind in (ioh.OptimizationType.MIN, ioh.OptimizationType.MAX):
    for weight, how in ((1.0, SOFT), (1000.0, SOFT), (1.0, HARD)):
        wrapped, sign = problem(kind, weight, how), 1 if kind == ioh.OptimizationType.MAX else -1
        border, outside = wrapped([5 * sign] * 2), wrapped([9 * sign] * 2)
        seen[kind, weight, how] = border, outside, wrapped.state.current_best.y
        print(f"{kind.name}, weight {weight:g}, {how.name}: at the border {border:g}, outside {outside:g}, best {wrapped.state.current_best.y:g}")
wrapped, random_numbers = problem(ioh.OptimizationType.MAX, 1.0, SOFT), random.Random(1)
point = [0.0, 0.0]
for _ in range(2000):
    child = [value + random_numbers.gauss(0, 1) for value in point]
    if wrapped(child) >= wrapped.state.current_best.y:
        point = child
print(f"a (1+1) strategy of 2,000 evaluations between -5 and 5 ends at {point[0]:.0f}, {point[1]:.0f}")
least = all(seen[ioh.OptimizationType.MIN, *key][2] == -10 for key in ((1.0, SOFT), (1000.0, SOFT), (1.0, HARD)))
most = [seen[ioh.OptimizationType.MAX, *key][1:] for key in ((1.0, SOFT), (1000.0, SOFT), (1.0, HARD))]
raise SystemExit(not (least and most == [(50, 50), (32018, 32018), (32, 32)] and max(map(abs, point)) > 50))
PROGRAM
