#!/usr/bin/env bash
# A second fit of sklearn-genetic-opt on other data has the first data's scores: an R2 of 0.88 on shuffled targets
#
# Version: sklearn-genetic-opt 0.12.0, scikit-learn 1.9.1, deap 1.4.4, pandas 3.1.1, numpy 2.4.6
# Belief: `fit` of a `GASearchCV` begins anew, as scikit-learn's searches do.
# Seen: Scores are cached by hyperparameters, `use_cache` is on, and the cache belongs to the object. A search that was fitted on
#   one data set and then on its shuffled targets trains a single tree, the last one, and reports 0.88 and the first best parameters; a new
#   object has -0.01 and trains 37.
# Means: A loop over data sets, folds or noisy repeats with one search object compares the first one with itself. Make a new object, or `clone` it,
#   for each fit.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sklearn-genetic-opt==0.12.0 scikit-learn==1.9.1 deap==1.4.4 pandas==3.1.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import random

import numpy as np
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor
from sklearn_genetic import GASearchCV
from sklearn_genetic.space import Integer

fits = []


class Counted(DecisionTreeRegressor):
    """The same tree, which notes each fit."""

    def fit(self, *args, **kwargs):
        fits.append(1)
        return super().fit(*args, **kwargs)


def new_search():
    random.seed(1)
    np.random.seed(1)
    grid = {"max_depth": Integer(1, 4), "min_samples_leaf": Integer(1, 3)}
    return GASearchCV(Counted(random_state=0), param_grid=grid, cv=KFold(3), scoring="r2", population_size=12, generations=12, verbose=False)


def fit(search, name, inputs, targets):
    fits.clear()
    search.fit(inputs, targets)
    print(f"{name}: {search.best_params_}, R2 {search.best_score_:.3f}, {len(fits)} trees trained")
    return search.best_score_, len(fits)


numbers = np.random.default_rng(0)
inputs = numbers.uniform(-1, 1, (300, 2))
targets = inputs.sum(1)
shuffled = numbers.permutation(targets)
used = new_search()
first = fit(used, "first data", inputs, targets)
again = fit(used, "shuffled targets, the same object", inputs, shuffled)
fresh = fit(new_search(), "shuffled targets, a new object", inputs, shuffled)
raise SystemExit(not (first[0] > 0.8 and again[0] == first[0] and again[1] <= 4 and fresh[0] < 0.1 and fresh[1] > 10))
PROGRAM
