#!/usr/bin/env bash
# A training of trees that is continued is another one where rows are drawn, in LightGBM and XGBoost
#
# Version: xgboost 3.2.0, lightgbm 4.7.0, scikit-learn 1.9.1, numpy 2.4.6
# Belief: With a seed, 20 rounds and 20 more from the saved model are 40 rounds.
# Seen: Without drawn rows they are, to the last bit, in both. With half of the rows drawn in each round predictions differ by a third to all of
#   what two seeds differ by: LightGBM draws the first rounds' rows again (after 20 rounds that learn nothing, the continued ones are the first 20),
#   and `seed_per_iteration` makes XGBoost's no better. scikit-learn's gradient boosting with `warm_start` is exact, with drawn rows too.
# Means: A surrogate that grows by rounds as evaluations come, or a resumed search, learns from the same halves again. Give each continuation a
#   seed of its own, or train anew.
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
x = draw.normal(size=(300, 3))
loss = ((x - 1) ** 2).sum(1)
rows = xgboost.DMatrix(x, loss)


def by_xgboost(rounds, begun=None, **settings):
    return xgboost.train({"nthread": 1, "seed": 1} | settings, rows, rounds, xgb_model=begun)


def by_lightgbm(rounds, begun=None, **settings):
    fixed = {"verbose": -1, "num_threads": 1, "seed": 1, "deterministic": True, "boost_from_average": False}
    return lightgbm.train(fixed | settings, lightgbm.Dataset(x, loss, free_raw_data=False), rounds, init_model=begun)


def far(train, data, **settings):
    whole, again, continued = train(40, **settings), train(40, **settings), train(20, train(20, **settings), **settings)
    other = train(40, **settings | {"seed": 2})
    return [float(np.abs(whole.predict(data) - model.predict(data)).max()) for model in (again, continued, other)]


halves = {"bagging_fraction": 0.5, "bagging_freq": 1}
seen = {
    "xgboost": (far(by_xgboost, rows), far(by_xgboost, rows, subsample=0.5), far(by_xgboost, rows, subsample=0.5, seed_per_iteration=True)),
    "lightgbm": (far(by_lightgbm, x), far(by_lightgbm, x, **halves)),
}
for name, cases in seen.items():
    print(name, "- 40 rounds against 40 again, 20 and 20 more, another seed:", [[f"{value:.2g}" for value in case] for case in cases])
nothing = by_lightgbm(20, learning_rate=1e-12, **halves)
repeated = float(np.abs(by_lightgbm(20, nothing, **halves).predict(x) - by_lightgbm(20, **halves).predict(x)).max())
print(f"lightgbm: 20 rounds after 20 that learn nothing against the first 20: {repeated:.2g}")
grown = GradientBoostingRegressor(subsample=0.5, n_estimators=20, random_state=1, warm_start=True).fit(x, loss)
once = GradientBoostingRegressor(subsample=0.5, n_estimators=40, random_state=1).fit(x, loss)
exact = bool((grown.set_params(n_estimators=40).fit(x, loss).predict(x) == once.predict(x)).all())
print("scikit-learn's boosting exact:", exact)
holds = all(case[0] == 0 for cases in seen.values() for case in cases) and all(cases[0][1] == 0 for cases in seen.values())
raise SystemExit(not (holds and all(case[1] > 0.05 for cases in seen.values() for case in cases[1:]) and repeated < 1e-6 and exact))
PROGRAM
