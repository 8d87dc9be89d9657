#!/usr/bin/env bash
# A metric that is NaN in the first round ends early stopping at that round, in XGBoost and LightGBM
#
# Version: xgboost 3.2.0, lightgbm 4.7.0, scikit-learn 1.9.1, numpy 2.4.6
# Belief: Early stopping leaves NaN out, as it does where one comes in a later round.
# Seen: Of the metrics 5, 4, NaN, 3, 2, 6, ... both take round 4 with 2 for the best one. With one NaN before them both stop after the rounds of
#   patience, with round 0 for the best and NaN for its metric: no number is better than NaN.
# Means: A search over such models reads NaN, or a network of one tree, where all later rounds were good; and whether a NaN costs nothing or
#   everything depends on its round. Return the worst number in place of NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-deps xgboost==3.2.0
"$folder/venv/bin/pip" install --quiet lightgbm==4.7.0 scikit-learn==1.9.1 numpy==2.4.6
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'EOF'
import math

import lightgbm
import numpy as np
import xgboost

generator = np.random.default_rng(0)
inputs = generator.normal(size=(200, 3))
targets = inputs[:, 0] + generator.normal(size=200)


def by_xgboost(metrics):
    values, data = iter(metrics), xgboost.DMatrix(inputs, targets, nthread=1)
    settings = {"max_depth": 2, "nthread": 1, "verbosity": 0, "disable_default_eval_metric": 1}
    stop = xgboost.callback.EarlyStopping(3, maximize=False)
    model = xgboost.train(
        settings, data, len(metrics), evals=[(data, "test")], custom_metric=lambda *_: ("loss", next(values)), callbacks=[stop],
        verbose_eval=False,
    )
    return model.best_iteration, model.best_score


def by_lightgbm(metrics):
    values, data = iter(metrics), lightgbm.Dataset(inputs, targets)
    settings = {"objective": "regression", "metric": "None", "num_threads": 1, "verbosity": -1}
    model = lightgbm.train(
        settings, data, len(metrics), valid_sets=[lightgbm.Dataset(inputs, targets, reference=data)],
        feval=lambda *_: ("loss", next(values), False), callbacks=[lightgbm.early_stopping(3, verbose=False)],
    )
    return model.best_iteration - 1, model.best_score["valid_0"]["loss"]


later = [5.0, 4.0, math.nan, 3.0, 2.0, 6.0, 7.0, 8.0, 9.0]
seen = [(by_xgboost(metrics), by_lightgbm(metrics)) for metrics in (later, [math.nan, *later])]
for words, pair in zip(("NaN in the third round", "and in the first one"), seen, strict=True):
    print(f"{words}: best round and its metric by XGBoost {pair[0]}, by LightGBM {pair[1]}")
first = all(best == 0 and math.isnan(score) for best, score in seen[1])
raise SystemExit(not (seen[0] == ((4, 2.0), (4, 2.0)) and first))
EOF
