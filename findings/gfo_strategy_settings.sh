#!/usr/bin/env bash
# The evolution strategy of Gradient-Free-Optimizers has neither offspring nor selection: its settings change nothing
#
# Version: gradient-free-optimizers 1.13.0, numpy 2.4.6
# Belief: `EvolutionStrategyOptimizer(population=10, offspring=20, replace_parents=False)` is a (10 + 20) strategy, and `replace_parents=True` a
#   (10, 20) one, as its pages say.
# Seen: Both settings are stored and never read. Runs with 1, 20 or 200 offspring, with and without the parents, are the same 1,000 points to the
#   bit. A member that is drawn moves by its step and stays there, better or worse: on a sphere of five dimensions the last 200 points
#   have a median loss of 0.3 to 6, and the result is 0.02 to 0.7, where its CMA-ES has 1e-10.
# Means: A sweep over lambda or over plus and comma compares one run with itself, and "an evolution strategy" of this package is ten random
#   walks. Use its CMA-ES, or another package.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gradient-free-optimizers==1.13.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import gradient_free_optimizers as gfo
import numpy as np

SPACE = {f"x{i}": (-5.0, 5.0) for i in range(5)}


def search(kind, seed, **settings):
    points = []

    def score(point):
        points.append(list(point.values()))
        return -sum((value - 1) ** 2 for value in points[-1])

    optimizer = kind(SPACE, random_state=seed, **settings)
    optimizer.search(score, n_iter=1000, verbosity=False, memory=False)
    return np.array(points), -optimizer.best_score


strategy, alike, results, steps = gfo.EvolutionStrategyOptimizer, [], [], []
for seed in range(4):
    points, result = search(strategy, seed)
    for settings in ({"offspring": 1}, {"offspring": 200}, {"replace_parents": True}, {"offspring": 70, "replace_parents": True}):
        alike.append(np.array_equal(points, search(strategy, seed, **settings)[0]))
    results.append(result)
    steps.append(float(np.median(((points - 1) ** 2).sum(1)[-200:])))
    print(f"seed {seed}: result {result:.3f}, median of the last 200 points {steps[-1]:.3f}; the same points with other settings: {alike[-4:]}")
cma = [search(gfo.CMAESOptimizer, seed)[1] for seed in range(4)]
print(f"CMA-ES of the same package: {max(cma):.1e} or less")
raise SystemExit(not (all(alike) and min(results) > 1e-3 and max(cma) < 1e-6 and all(step > 2 * result for step, result in zip(steps, results))))
PROGRAM
