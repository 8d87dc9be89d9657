#!/usr/bin/env bash
# COCO does not count an evaluation of a point with NaN or infinity
#
# Version: coco-experiment 2.8.2
# Belief: Each call of a problem is one evaluation of its budget.
# Seen: A point with NaN in a coordinate returns NaN, one with infinity returns infinity, and the counter of evaluations stays.
#   A hundred of them cost nothing; the next finite point is the first evaluation.
# Means: An algorithm that diverges never uses up its budget: a loop `while problem.evaluations < budget` has no end, and its
#   runtime per target looks better than it was. Count calls in your own loop.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet coco-experiment==2.8.2 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import cocoex
import numpy as np

problem = cocoex.Suite("bbob", "", "function_indices: 1 dimensions: 2").get_problem(0)
counts = {}
for name, point in (("nan", [np.nan, 1.0]), ("inf", [np.inf, 1.0]), ("finite", [9.0, 9.0])):
    values = {problem(point) for _ in range(100 if name != "finite" else 1)}
    counts[name] = problem.evaluations
    print(f"{name}: value {values.pop()}, evaluations counted so far {counts[name]}")
raise SystemExit(counts != {"nan": 0, "inf": 0, "finite": 1})
EOF
