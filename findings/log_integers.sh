#!/usr/bin/env bash
# The share of ones of an integer from 1 to 8 on a log scale is 39 %, 30 % or 19 %, by the tuner
#
# Version: optuna 5.0.0, ConfigSpace 1.2.2, nevergrad 1.0.12, numpy 2.4.6
# Belief: Random search over integers from 1 to 8 on a log scale is the same search in every library.
# Seen: Optuna draws log-uniformly from 0.5 to 8.5 and rounds, so that 39 % are 1. ConfigSpace gives each number its share of 1 to 9, as floors of SciPy's
#   `loguniform(1, 9)` have, and 30 % are 1. nevergrad rounds a number of 1 to 8, so that 1 has 19 %, fewer than 2 with 25 %, and 8 has 3 %. The mean is 2.9, 3.3 or 3.4.
# Means: "Log-uniform" over few integers, such as populations, layers or pairs, names three priors. A comparison of tuners by random search is
#   one of priors. List the choices, or give their powers of two on a plain scale.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optuna==5.0.0 ConfigSpace==1.2.2 nevergrad==1.0.12 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
from collections import Counter

import ConfigSpace
import nevergrad as ng
import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
NUMBER = 3000
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
study.optimize(lambda trial: trial.suggest_int("i", 1, 8, log=True), n_trials=NUMBER)
space = ConfigSpace.ConfigurationSpace(seed=0)
space.add(ConfigSpace.Integer("i", (1, 8), log=True))
parameter = ng.p.Log(lower=1, upper=8).set_integer_casting()
parameter.random_state.seed(0)
draws = {
    "Optuna": Counter(trial.params["i"] for trial in study.trials),
    "ConfigSpace": Counter(int(configuration["i"]) for configuration in space.sample_configuration(NUMBER)),
    "nevergrad": Counter(int(parameter.sample().value) for _ in range(NUMBER)),
}
for name, counts in draws.items():
    shares = {value: round(counts[value] / NUMBER, 2) for value in range(1, 9)}
    print(f"{name}: {shares}, mean {sum(value * count for value, count in counts.items()) / NUMBER:.2f}")
ones = {name: counts[1] / NUMBER for name, counts in draws.items()}
expected = {"Optuna": 0.39, "ConfigSpace": 0.30, "nevergrad": 0.19}
raise SystemExit(not all(abs(ones[name] - share) < 0.03 for name, share in expected.items()))
PROGRAM
