#!/usr/bin/env bash
# With pruned trials counted, Optuna's CMA-ES searches where trials are pruned
#
# Version: optuna 5.0.0, cmaes 0.13.1, numpy 2.4.6
# Belief: CmaEsSampler(consider_pruned_trials=True) learns from pruned trials too, and knows that they had fewer steps.
# Seen: A pruned trial counts with its last report as it stands, next to final values of complete trials. A loss that grows
#   with steps (a return that is summed, a total of errors) is small where a trial stopped early. With the minimum at x = 2
#   and every trial with x < 0 pruned at its first step, the last 60 trials have a mean x of 0.00, the border at which
#   pruning begins, and 2.00 without the option.
# Means: A sweep over settings of an evolution strategy ends among those that were pruned. Report a mean, not a sum, and
#   leave the option off.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optuna==5.0.0 cmaes==0.13.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import optuna
from optuna.samplers import CmaEsSampler

optuna.logging.set_verbosity(optuna.logging.ERROR)


def last_mean(counted):
    study = optuna.create_study(sampler=CmaEsSampler(seed=1, consider_pruned_trials=counted, popsize=6))
    for _ in range(400):
        trial = study.ask()
        x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
        step = (x - 2) ** 2 + y**2 + 1  # the loss of each of ten steps; the value is their sum
        if x < 0:
            trial.report(step, 1)
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, 10 * step)
    return float(np.mean([trial.params["x"] for trial in study.trials[-60:]]))


without, counted = last_mean(False), last_mean(True)
print(f"mean x of the last 60 trials, best at 2: {without:.3f} without pruned trials, {counted:.3f} with them")
raise SystemExit(not (abs(without - 2) < 0.1 and abs(counted) < 0.1))
EOF
