#!/usr/bin/env bash
# The repeats of a ZOOpt experiment with a seed are one run: its mean has a deviation of 0
#
# Version: zoopt 0.4.2, numpy 2.4.6
# Belief: `ExpOpt.min(objective, Parameter(budget=60, seed=1), repeat=4)` is four independent runs that a seed makes repeatable.
# Seen: Each repeat sets the generator to the seed again. All four evaluate the same 60 points and have the same result, and the line at
#   the end says "best +- 0.0". Without a seed they differ by a factor of 50.
# Means: A table of means and deviations over repeats is of one run, and a difference to another algorithm is significant at any level. Call
#   it once for each of several seeds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet zoopt==0.4.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import contextlib
import io

from zoopt import Dimension, ExpOpt, Objective, Parameter


def experiment(**settings):
    points = []

    def loss(solution):
        points.append(tuple(solution.get_x()))
        return sum((value - 0.2) ** 2 for value in points[-1])

    objective = Objective(loss, Dimension(3, [[-1, 1]] * 3, [True] * 3))
    with contextlib.redirect_stdout(io.StringIO()) as said:
        best = ExpOpt.min(objective, Parameter(budget=60, **settings), repeat=4, best_n=4)
    summary = [line for line in said.getvalue().splitlines() if "+-" in line]
    print(f"{settings or 'no seed'}: {len(points)} evaluations, {len(set(points))} points; {summary[-1] if summary else ''}")
    return points, {solution.get_value() for solution in best}


points, values = experiment(seed=1)
free, others = experiment()
one_run = len(points) == 240 and all(points[60 * i : 60 * i + 60] == points[:60] for i in range(4)) and len(values) == 1
raise SystemExit(not (one_run and len(set(free)) > 200 and len(others) == 4))
PROGRAM
