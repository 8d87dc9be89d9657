#!/usr/bin/env bash
# OpenBox's CMA-ES adds one number to every entry of its covariance, so that all variables are correlated after some generations
#
# Version: openbox 0.9.0, configspace 0.6.1, numpy 1.26.4
# Belief: Its covariance learns from outer products of steps, and `random_state=1` makes a run repeatable.
# Seen: `op` is `array @ array.T` of a vector, which is its squared length and no matrix. In each generation the same number is added to
#   all entries: covariances stay equal to each other, and after 40 generations each pair of variables has a correlation of 0.98 or more.
#   Its result is 500 to 3,000 times pycma's where the optimum lies at (-2, 3, -1, 2). Points are drawn from numpy's global generator: of one
#   `random_state` no point comes again.
# Means: "CMA-ES" in a comparison by OpenBox searches along the diagonal. Use another package's.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openbox==0.9.0 configspace==0.6.1 numpy==1.26.4 cma==4.5.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import logging

import cma
import numpy as np
from openbox import Observation, logger, space
from openbox.core.ea.cmaes_ea_advisor import CMAESEAAdvisor

logging.disable(logging.CRITICAL)
BEST = np.array([-2.0, 3.0, -1.0, 2.0])


def search(global_seed, generations=40):
    np.random.seed(global_seed)
    variables = space.Space()
    variables.add_variables([space.Real(f"x{i}", -5, 5) for i in range(4)])
    advisor, points, losses = CMAESEAAdvisor(variables, population_size=12, random_state=1), [], []
    for _ in range(12 * generations):
        config = advisor.get_suggestion()
        points.append([config[f"x{i}"] for i in range(4)])
        losses.append(float(((np.array(points[-1]) - BEST) ** 2).sum()))
        advisor.update_observation(Observation(config=config, objectives=[losses[-1]]))
    outside = advisor.cov[~np.eye(4, dtype=bool)]
    scale = np.sqrt(np.outer(np.diag(advisor.cov), np.diag(advisor.cov)))
    return np.array(points), min(losses), np.ptp(outside), (advisor.cov / scale)[~np.eye(4, dtype=bool)].min()


results, correlations = [], []
for seed in (1, 2, 3):
    points, best, spread, correlation = search(seed)
    options = {"seed": seed, "bounds": [-5, 5], "popsize": 12, "maxfevals": 480, "verbose": -9}
    reference = cma.fmin2(lambda x: float(((x - BEST) ** 2).sum()), [0.0] * 4, 5.0, options)[1].result.fbest
    results.append((best, reference))
    correlations.append((spread, correlation))
    print(f"numpy's seed {seed}: best of 480 {best:.2g}, pycma {reference:.2g}; covariances differ by {spread:.1e}, "
          f"least correlation {correlation:.2f}")
repeated = len({tuple(point) for point in search(1, 2)[0]} & {tuple(point) for point in search(2, 2)[0]})
print(f"points in two runs of random_state=1: {repeated} of 24")
raise SystemExit(not (all(spread < 1e-9 and value > 0.5 for spread, value in correlations) and repeated == 0
                      and all(best > 10 * reference for best, reference in results)))
PROGRAM
