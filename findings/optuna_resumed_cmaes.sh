#!/usr/bin/env bash
# A resumed study of Optuna's CMA-ES takes no new setting, and one that has converged tries one point for the rest of its budget
#
# Version: optuna 5.0.0, cmaes 0.13.1, numpy 2.4.6
# Belief: The sampler that a study is resumed with decides: its population, its sigma, its start. A converged CMA-ES begins again.
# Seen: The optimizer is in the trials. With another `popsize`, `sigma0`, `x0` or `lr_adapt` the resumed study has the values of the
#   first sampler, and its 60 trials are the same ones to the bit, with no word. With `use_separable_cma` or `with_margin` the state is
#   not read, and the search begins again at the centre. Of 400 trials over three integers the last 200 are one point, with
#   `restart_strategy="ipop"` too, though the optimizer says that it should stop.
# Means: A larger population after half of the budget is the old one, and a converged search spends what is left on one point. Begin
#   another study, and look at how many of its trials are distinct.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optuna==5.0.0 cmaes==0.13.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import pickle

import numpy as np
import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)


def sampler(**settings):
    return optuna.samplers.CmaEsSampler(**{"seed": 0, "popsize": 8, **settings})


def sphere(trial):
    return sum((trial.suggest_float(f"x{i}", -1, 1) - 0.3) ** 2 for i in range(4))


def optimizer(study):
    for trial in reversed(study.trials):
        parts = {int(key.rsplit(":", 1)[1]): part for key, part in trial.system_attrs.items() if ":optimizer:" in key}
        if parts:
            return pickle.loads(bytes.fromhex("".join(parts[i] for i in sorted(parts))))


def points(study):
    return np.array([list(trial.params.values()) for trial in study.trials])


changes = {
    "none": {},
    "popsize=16": {"popsize": 16},
    "sigma0=0.5": {"sigma0": 0.5},
    "x0=-0.9": {"x0": {f"x{i}": -0.9 for i in range(4)}},
    "lr_adapt": {"lr_adapt": True},
    "use_separable_cma": {"use_separable_cma": True},
    "with_margin": {"with_margin": True},
}
seen = {}
for name, change in changes.items():
    study = optuna.create_study(sampler=sampler())
    study.optimize(sphere, n_trials=41)
    study.sampler = sampler(**change)
    study.optimize(sphere, n_trials=60)
    seen[name] = points(study)
    now = optimizer(study)
    print(f"{name}: {type(now).__name__}, population {now.population_size}, generation {now.generation}, "
          f"mean of the next 16 {seen[name][41:57].mean(0).round(2)}")
ignored = all(np.array_equal(seen["none"], seen[name]) for name in ("popsize=16", "sigma0=0.5", "x0=-0.9", "lr_adapt"))
again = all(abs(seen[name][41:57].mean(0)).mean() < 0.2 for name in ("use_separable_cma", "with_margin"))
print("as without a change:", ignored, "- begun again at the centre:", again)


def integers(trial):
    return sum((trial.suggest_int(f"x{i}", 0, 20) - 17) ** 2 for i in range(3))


one = True
for settings in ({}, {"restart_strategy": "ipop"}):
    study = optuna.create_study(sampler=sampler(popsize=None, **settings))
    study.optimize(integers, n_trials=400)
    distinct = [len({tuple(point) for point in points(study)[at : at + 100]}) for at in range(0, 400, 100)]
    print(settings, "distinct points per hundred trials:", distinct, "should stop:", optimizer(study).should_stop())
    one &= distinct[2:] == [1, 1] and optimizer(study).should_stop()
raise SystemExit(not (ignored and again and one))
PROGRAM
