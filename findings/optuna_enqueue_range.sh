#!/usr/bin/env bash
# A value outside of its range is tried, and wins, if it was enqueued
#
# Version: optuna 5.0.0
# Belief: suggest_float(name, 0, 1) returns a number between 0 and 1, or the enqueued value is refused.
# Seen: An enqueued 99 is returned by suggest_float for the range 0 to 1, with a warning; CMA-ES and TPE then go on from a
#   study whose best point lies outside of the search space. A categorical value that is not in the list raises.
# Means: Starting points from an earlier sweep of wider ranges are run as they are: a learning rate or sigma outside of the new
#   range becomes the best trial. Check points against the ranges before they are enqueued.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optuna==5.0.0
"$folder/venv/bin/python" - <<'EOF'
import warnings

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(direction="maximize")
study.enqueue_trial({"x": 99.0})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=20)
warned = [str(one.message)[:90] for one in caught if "out of" in str(one.message) or "range" in str(one.message)]
print(f"best of 20 trials over the range 0 to 1: {study.best_params}; warnings: {warned}")
other = optuna.create_study()
other.enqueue_trial({"x": 99})
try:
    other.optimize(lambda trial: trial.suggest_categorical("x", [1, 2]), n_trials=1)
    refused = False
except ValueError as error:
    print("categorical:", error)
    refused = True
raise SystemExit(study.best_params != {"x": 99.0} or not refused)
EOF
