#!/usr/bin/env bash
# A grid search that is resumed in Optuna leaves out the points that failed
#
# Version: optuna 5.0.0
# Belief: A resume tries what has no result; a grid that was run to its end is left as it is.
# Seen: A point whose trial raised counts as visited: the resume tries the others and stops. A trial that was killed, and still counts as
#   running, is tried again. `optimize` on a complete grid tries one point a second time, drawn at random.
# Means: After a node without memory the table lacks a setting, with no word, and the best of the grid may be the one that is missing.
#   Compare the completed trials with the grid, and enqueue the rest.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optuna==5.0.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import optuna
from optuna.samplers import GridSampler

optuna.logging.set_verbosity(optuna.logging.CRITICAL)
study = optuna.create_study(sampler=GridSampler({"x": [1, 2, 3]}, seed=0))
tried = []


def square(trial):
    tried.append(trial.suggest_int("x", 1, 3))
    if len(tried) == 2:
        raise MemoryError
    return tried[-1] ** 2


try:
    study.optimize(square)
except MemoryError:
    first = list(tried)
study.sampler = GridSampler({"x": [1, 2, 3]}, seed=0)
study.optimize(square)
resumed = tried[len(first) :]
study.optimize(square)
extra = tried[len(first) + len(resumed) :]
killed = optuna.create_study(sampler=GridSampler({"x": [1, 2, 3]}, seed=0))
lost = killed.ask().suggest_int("x", 1, 3)
again = []
killed.optimize(lambda trial: again.append(trial.suggest_int("x", 1, 3)) or 0.0)
print("tried", first, "and the last one failed; after the resume", resumed, "; after the end", extra)
print("a killed trial's point", lost, "and what was tried after it", again)
raise SystemExit(not (first[1] not in resumed and len(resumed) == 1 and len(extra) == 1 and lost in again))
EOF
