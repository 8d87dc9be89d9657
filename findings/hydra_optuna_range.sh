#!/usr/bin/env bash
# `range(1,4)` tries 4 under Hydra's Optuna sweeper, and not under its own
#
# Version: hydra-core 1.3.8, hydra-optuna-sweeper 1.3.0, optuna 2.10.1
# Belief: A sweep's override says which values are tried, whichever sweeper runs it.
# Seen: `+x=range(1,4)` has 1, 2 and 3 by the basic sweeper, and 1, 2, 3 and 4 by the Optuna sweeper, where the last value is included:
#   half of forty trials of a loss that rises with x are at 1 and two are at 4. A job that returns NaN ends the sweep with an error.
# Means: The one sweep tries a number of layers, ranks or a seed that the other was never given; 4 may be the winner. Write
#   `choice(1,2,3)`, and give a diverged job a number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hydra-core==1.3.8 hydra-optuna-sweeper==1.3.0 optuna==2.10.1
cat >"$folder/app.py" <<'EOF'
import os

import hydra


@hydra.main(version_base=None, config_name=None)
def main(config):
    with open(os.environ["TRIED"], "a") as file:
        file.write(f"{config.x}\n")
    return float("nan") if config.x == config.get("bad") else float(config.x)


main()
EOF
cd "$folder"
optuna="hydra/sweeper=optuna hydra.sweeper.n_jobs=1 hydra.sweeper.n_trials=40 hydra.sweeper.sampler.seed=1"
TRIED=$folder/basic venv/bin/python -W ignore app.py -m "+x=range(1,4)" >log 2>&1
TRIED=$folder/optuna venv/bin/python -W ignore app.py -m "+x=range(1,4)" $optuna >log 2>&1
TRIED=$folder/nan venv/bin/python -W ignore app.py -m "+x=choice(1,2)" +bad=2 $optuna >log 2>&1 && code=0 || code=$?
for name in basic optuna; do
    echo "$name: tried" $(sort -u "$name")
done
echo "exit code of the sweep with a NaN: $code, jobs run: $(wc -l <nan) of 40"
[ "$(sort -u basic | tr '\n' ' ')" = "1 2 3 " ] && [ "$(sort -u optuna | tr '\n' ' ')" = "1 2 3 4 " ] && [ "$code" != 0 ]
