#!/usr/bin/env bash
# A surrogate by XGBoost is a constant where losses are small, or far from zero
#
# Version: xgboost 3.2.0, lightgbm 4.7.0, scikit-learn 1.9.1, numpy 2.4.6
# Belief: Trees split by the order of features and by differences of labels, so that a loss in other units gives the same surrogate in those units.
# Seen: Of losses multiplied by 1e-5 XGBoost's 100 trees are one constant, and at 1e-4 its error is twice that at 1: a split must gain 1e-6 in
#   squared units of the loss, whatever `gamma` is. With 1e8 added it is a constant too, and so it is for features with 1e8 added, as both are
#   float32. LightGBM and scikit-learn's boosting have the same error in any unit; scikit-learn's is a constant for moved features too, and
#   LightGBM's error doubles at 1e8. No warning.
# Means: A search over learning rates with losses of 1e-4 is a random search by its surrogate. Standardise losses and features before they are told.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet xgboost==3.2.0 lightgbm==4.7.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import lightgbm
import numpy as np
import xgboost
from sklearn.ensemble import GradientBoostingRegressor

draw = np.random.default_rng(0)
x = draw.normal(size=(400, 3))
loss = ((x - 1) ** 2).sum(1)
makes = {
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=100, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=100, n_jobs=1, verbose=-1),
    "scikit-learn": lambda: GradientBoostingRegressor(n_estimators=100, random_state=1),
}


def error(make, scale=1.0, offset=0.0, moved=0.0):
    predicted = (make().fit(x[:300] + moved, loss[:300] * scale + offset).predict(x[300:] + moved) - offset) / scale
    return float(np.abs(predicted - loss[300:]).mean()), len(set(predicted))


seen = {}
for name, make in makes.items():
    cases = {"as it is": {}, "x 1e-3": {"scale": 1e-3}, "x 1e-4": {"scale": 1e-4}, "x 1e-5": {"scale": 1e-5}}
    cases |= {"+ 1e8": {"offset": 1e8}, "features + 1e8": {"moved": 1e8}}
    seen[name] = {case: error(make, **settings) for case, settings in cases.items()}
    print(name, "- mean error and number of different predictions:", {case: (round(e, 2), n) for case, (e, n) in seen[name].items()})
plain = {name: rows["as it is"][0] for name, rows in seen.items()}
xgb = seen["xgboost"]
holds = xgb["x 1e-5"][1] == xgb["+ 1e8"][1] == xgb["features + 1e8"][1] == 1 and xgb["x 1e-4"][0] > 1.5 * plain["xgboost"]
holds &= all(abs(seen[name]["x 1e-5"][0] / plain[name] - 1) < 0.01 for name in ("lightgbm", "scikit-learn"))
raise SystemExit(not holds)
PROGRAM
