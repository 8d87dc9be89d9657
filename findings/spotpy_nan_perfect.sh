#!/usr/bin/env bash
# A simulation of NaN has a perfect Nash-Sutcliffe efficiency of 1 in spotpy, and no bias
#
# Version: spotpy 1.6.7, numpy 2.4.6
# Belief: An objective of a simulation that diverged is NaN.
# Seen: `nashsutcliffe` is 1, the best there is, `bias` 0 and `pbias` 0 where all is NaN. Where a simulation is NaN from the sixth of 30
#   times on it is 0.996, better than the complete one with 0.971, and `rmse`, `mse` and `rrmse` are better too. In the same module `kge`,
#   `mae`, `rsquared`, `agreementindex` and correlation are NaN in both cases.
# Means: A model calibrated by Nash and Sutcliffe learns to diverge. Ask for finite simulations before the objective.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet spotpy==1.6.7 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
import spotpy.objectivefunctions as objectives

generator = np.random.default_rng(0)
observed = generator.gamma(2, 5, 30)
simulated = observed + generator.normal(0, 1, 30)
early, nothing = simulated.copy(), np.full(30, np.nan)
early[5:] = np.nan
seen = {}
for name in ("nashsutcliffe", "bias", "pbias", "rmse", "mse", "rrmse", "kge", "mae", "rsquared", "agreementindex", "correlationcoefficient"):
    function = getattr(objectives, name)
    seen[name] = complete, stopped, diverged = [float(function(list(observed), list(run))) for run in (simulated, early, nothing)]
    print(f"{name}: complete {complete:.4f}, NaN from the sixth time on {stopped:.4f}, all NaN {diverged:.4f}")
holds = seen["nashsutcliffe"][2] == 1 and seen["nashsutcliffe"][1] > seen["nashsutcliffe"][0] and seen["bias"][2] == seen["pbias"][2] == 0
holds &= all(seen[name][1] < seen[name][0] for name in ("rmse", "mse", "rrmse"))
loud = all(np.isnan(seen[name][1:]).all() for name in ("kge", "mae", "rsquared", "agreementindex", "correlationcoefficient"))
raise SystemExit(not (holds and loud))
PROGRAM
