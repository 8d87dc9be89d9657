#!/usr/bin/env bash
# The seed of Syne Tune's random search decides nothing, and that of its evolution nothing of the first population
#
# Version: syne-tune 0.16.0, numpy 2.4.6
# Belief: `random_seed=1` gives the same suggestions in each run, and leaves numpy's global generator alone.
# Seen: Both draw configurations by `sample()` from numpy's global generator, and the generator of the seed is handed over and not used.
#   Two random searches of seed 1 share no point; two of seeds 1 and 2 are the same after one `np.random.seed`. Regularized evolution draws
#   its first 100 so, and parents and mutations from its seed.
# Means: Paired comparisons over seeds are not paired, and a library that seeds numpy between makes runs of all seeds one. Call
#   `np.random.seed` with the seed before the search.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 pandas==3.1.1 dill ujson sortedcontainers typing-extensions pyyaml
"$folder/venv/bin/pip" install --quiet --no-deps syne-tune==0.16.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import numpy as np
from syne_tune.config_space import uniform
from syne_tune.optimizer.schedulers.searchers.random_searcher import RandomSearcher
from syne_tune.optimizer.schedulers.searchers.regularized_evolution import RegularizedEvolution

SPACE = {"rate": uniform(0, 1), "decay": uniform(0, 1)}


def search(kind, seed, count, before=None):
    if before is not None:
        np.random.seed(before)
    searcher, points = kind(SPACE, random_seed=seed), []
    for trial in range(count):
        config = searcher.suggest()
        points.append(config["rate"])
        searcher.on_trial_complete(str(trial), config, config["rate"])
    return points


def shared(kind, count, seeds, before=None):
    first, second = (search(kind, seed, count, before) for seed in seeds)
    return sum(a == b for a, b in zip(first, second))


seen = {
    "random, seed 1 twice": shared(RandomSearcher, 50, (1, 1)),
    "random, seeds 1 and 2 after np.random.seed(5)": shared(RandomSearcher, 50, (1, 2), 5),
    "evolution, seed 1 twice": shared(RegularizedEvolution, 50, (1, 1)),
    "evolution, seeds 1 and 2 after np.random.seed(5)": shared(RegularizedEvolution, 50, (1, 2), 5),
    "evolution, seed 1 twice after np.random.seed(5), 150": shared(RegularizedEvolution, 150, (1, 1), 5),
}
for name, count in seen.items():
    print(f"{name}: {count} points shared")
raise SystemExit(list(seen.values()) != [0, 50, 0, 50, 150])
PROGRAM
