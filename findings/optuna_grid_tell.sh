#!/usr/bin/env bash
# The last point of Optuna's grid cannot be told
#
# Version: optuna 5.0.0
# Belief: ask and tell work with any sampler; a grid is merely finite.
# Seen: GridSampler calls study.stop after its last point, and stop is allowed only inside optimize: the last tell raises
#   RuntimeError. The trial is stored as complete all the same, so a caller that tells it again is refused.
# Means: A sweep by ask and tell, with the trials run as jobs of a cluster, dies at its last result. Catch the RuntimeError
#   where all points are told, or use a list of points with enqueue_trial.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optuna==5.0.0
"$folder/venv/bin/python" - <<'EOF'
import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=optuna.samplers.GridSampler({"x": [1, 2, 3]}))
told = []
for _ in range(3):
    trial = study.ask()
    try:
        study.tell(trial, trial.suggest_float("x", 0, 5))
        told.append("ok")
    except RuntimeError as error:
        told.append(str(error))
states = [trial.state.name for trial in study.trials]
print(f"three points told: {told}; states {states}")
raise SystemExit(told[:2] != ["ok", "ok"] or "Study.stop" not in told[2] or states != ["COMPLETE"] * 3)
EOF
