#!/usr/bin/env bash
# Workers of one Optuna study whose samplers have one seed try the same points
#
# Version: optuna 5.0.0, cmaes 0.13.1
# Belief: A seeded sampler draws by its seed and the trial's number, so that workers of one study with one seed share the work.
# Seen: Two workers with `seed=0`, 12 trials in turns: random search tries 6 points, TPE 7, each one twice. Under CMA-ES all but the first
#   are different, as its draws depend on the trial's number; Sobol's numbers are counted in the study.
# Means: A job array whose command has `seed=0` pays for random search and for TPE's first trials as many times as it has workers, and its
#   best point does not show it. Add the worker's number to the seed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optuna==5.0.0 cmaes==0.13.1 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'EOF'
import optuna
from optuna.samplers import CmaEsSampler, QMCSampler, RandomSampler, TPESampler

optuna.logging.set_verbosity(optuna.logging.ERROR)
square = lambda trial: trial.suggest_float("x", -5, 5) ** 2 + trial.suggest_float("y", -5, 5) ** 2
points = {}
for kind in (RandomSampler, TPESampler, CmaEsSampler, QMCSampler):
    workers = [kind(seed=0), kind(seed=0)]
    study = optuna.create_study(sampler=workers[0])
    for number in range(12):
        study.sampler = workers[number % 2]
        study.optimize(square, n_trials=1)
    points[kind.__name__] = len({tuple(trial.params.values()) for trial in study.trials})
print("points of 12 trials:", points)
raise SystemExit(not (points["RandomSampler"] == 6 and 6 <= points["TPESampler"] < 10 and points["CmaEsSampler"] == points["QMCSampler"] == 12))
EOF
