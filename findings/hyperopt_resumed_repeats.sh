#!/usr/bin/env bash
# A resumed hyperopt search evaluates its first points again: ten trials more are ten trials twice
#
# Version: hyperopt 0.3.0, numpy 2.4.6, scipy 1.17.1
# Belief: `fmin(..., max_evals=20, trials=trials, rstate=default_rng(1))` with ten finished trials goes on with the next ten points of the seed.
# Seen: The generator begins again, and trials are drawn from its seeds alone, so random search evaluates the first ten points a second
#   time, and so does TPE, which draws at random until it has 20. An unbroken search of 20 has 20 points. With another seed for the resume
#   there are no repeats.
# Means: A search that is stopped and continued in a script with one seed pays twice for the same points, and a count of trials is twice the count of
#   points. Hand over one generator object to both calls, or seed the resume by the number of finished trials.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hyperopt==0.3.0 numpy==2.4.6 scipy==1.17.1 "setuptools<82"
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import logging

import numpy as np
from hyperopt import Trials, fmin, hp, rand, tpe

logging.disable(logging.CRITICAL)


def search(suggest, total, trials, generator):
    points = []

    def loss(x):
        points.append(x)
        return (x - 0.3) ** 2

    fmin(loss, hp.uniform("x", 0, 1), algo=suggest, max_evals=total, trials=trials, rstate=generator, show_progressbar=False)
    return points


holds = []
for name, suggest in (("random", rand.suggest), ("TPE", tpe.suggest)):
    unbroken, trials = search(suggest, 20, Trials(), np.random.default_rng(1)), Trials()
    first = search(suggest, 10, trials, np.random.default_rng(1))
    second = search(suggest, 20, trials, np.random.default_rng(1))
    trials, generator = Trials(), np.random.default_rng(1)
    kept = search(suggest, 10, trials, generator) + search(suggest, 20, trials, generator)
    print(f"{name}: of 20 trials {len(set(unbroken))} points unbroken, {len(set(first + second))} resumed with the seed, "
          f"{len(set(kept))} resumed with the generator")
    holds.append(first == second == unbroken[:10] and len(set(unbroken)) == len(set(kept)) == 20)
raise SystemExit(not all(holds))
PROGRAM
