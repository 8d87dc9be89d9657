#!/usr/bin/env bash
# `raw_y` and `best.y` in IOHexperimenter's files are distances to the optimum, not what the function returned
#
# Version: ioh 0.4.2
# Belief: A logged `raw_y` is the raw value of the objective, the number that the caller got and `problem.state` has.
# Seen: On BBOB's sphere of two dimensions a call returns 84.69 and `state.current_best.y` is 84.69; the files have 5.21 for it, the
#   value without the optimum's 79.48. A run on a function of one's own, whose optimum is not given, is logged as it is.
# Means: Numbers from the files and from the program cannot be put in one table, and thresholds of one mean nothing for the other.
#   Say with each figure whether the optimum is taken off.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ioh==0.4.2
cd "$folder"
"$folder/venv/bin/python" - <<'EOF'
import json
from pathlib import Path

import ioh


def logged(problem, name):
    logger = ioh.logger.Analyzer(root=".", folder_name=name, algorithm_name="none")
    problem.attach_logger(logger)
    returned = problem([1.0, 1.0])
    logger.close()
    facts = json.loads(next(Path(name).glob("*.json")).read_text())
    rows = next(Path(name).glob("*/*.dat")).read_text().split()
    return returned, problem.state.current_best.y, facts["scenarios"][0]["runs"][0]["best"]["y"], float(rows[-1])


sphere = ioh.get_problem(1, 1, 2, ioh.ProblemClass.BBOB)
seen = logged(sphere, "sphere")
print("optimum", sphere.optimum.y, "returned, state, best.y in the file, raw_y in the file:", seen)
ioh.problem.wrap_real_problem(lambda x: 50.0 + sum(v * v for v in x), "own", ioh.OptimizationType.MIN, -5, 5)
own = logged(ioh.get_problem("own", 1, 2, ioh.ProblemClass.REAL), "own")
print("a function of one's own:", own)
gap = seen[0] - sphere.optimum.y
raise SystemExit(not (seen[1] == seen[0] and abs(seen[2] - gap) < 1e-6 and abs(seen[3] - gap) < 1e-6 and own[3] == own[0]))
EOF
